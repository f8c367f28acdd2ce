#!/usr/bin/env bash
# Type-checks and lints the macOS code of the crate `ane` on Linux, with and without its Python wrapper. Nothing is linked or
# run. Takes Debian's own Rust (scripts/install_system_packages.sh --macos-check), which has the standard library's source
# and so can compile it for any target; a rustup toolchain could only with a standard library from the network.
set -euo pipefail
cd "$(dirname "$0")/.."

sysroot=$(/usr/bin/rustc --print sysroot 2>/dev/null) && [ -f "$sysroot/lib/rustlib/src/rust/library/Cargo.lock" ] || {
  echo "Debian's Rust or the source of its standard library is missing: run scripts/install_system_packages.sh --macos-check" >&2
  exit 1
}

# Cargo finds the compiler, clippy and rustdoc beside it, not a rustup's.
export PATH="/usr/bin:$PATH" RUSTC=/usr/bin/rustc RUSTDOC=/usr/bin/rustdoc
unset RUSTUP_TOOLCHAIN
# Lets a stable compiler take -Z.
export RUSTC_BOOTSTRAP=1
# Compiled by another Rust than the rest.
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-target}/macos-check
# One dependency has a file of Objective-C, which only linking needs.
export CC_aarch64_apple_darwin=true AR_aarch64_apple_darwin=true SDKROOT=/

for features in --no-default-features "--features python"; do
  for command in check clippy; do
    deny=()
    [ "$command" = clippy ] && deny=(-- --deny warnings)
    # shellcheck disable=SC2086
    /usr/bin/cargo "$command" --manifest-path ane/Cargo.toml --locked -Zbuild-std=core,alloc,std,panic_abort \
      --target aarch64-apple-darwin $features "${deny[@]}"
  done
done
