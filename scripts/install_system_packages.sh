#!/usr/bin/env bash
# Installs the Debian packages that Mirror SD needs and that are missing: as root at once, else it prints the one
# line to run. Asks the network only when something is missing. Elsewhere than on Debian and its kin it says what
# is needed; on macOS nothing is. With --macos-check also what scripts/check_macos.sh needs (800 MB), on Debian 12.
set -euo pipefail

packages=(
  # MLX compiles its CPU kernels with g++ at run time and multiplies through the system's BLAS; linking the crate needs gcc.
  g++ libopenblas0-pthread
  # Qt, on any platform
  libegl1 libgl1 libxkbcommon0 libdbus-1-3 libfontconfig1 libfreetype6 libglib2.0-0 libx11-6
  # Qt on X11
  libx11-xcb1 libxkbcommon-x11-0 libxcb-cursor0 libxcb-icccm4 libxcb-image0 libxcb-keysyms1 libxcb-randr0
  libxcb-render-util0 libxcb-shape0 libxcb-shm0 libxcb-sync1 libxcb-util1 libxcb-xfixes0 libxcb-xkb1
  # A display for the window tests
  xvfb xauth
  # Scripts of the world and emoji
  fonts-dejavu-core fonts-noto-cjk fonts-noto-color-emoji
)
# Debian's newest Rust with the source of its standard library. A rustup toolchain stays the default: it comes first in PATH.
macos_check=(rustc-web cargo-web rust-web-src rust-web-clippy)

case "$*" in
"") ;;
--macos-check) packages+=("${macos_check[@]}") ;;
*)
  echo "usage: install_system_packages.sh [--macos-check]" >&2
  exit 2
  ;;
esac

[ "$(uname -s)" = Linux ] || exit 0
if ! command -v dpkg-query >/dev/null; then
  echo "This is no Debian: install what these Debian packages hold, if it is not there: ${packages[*]}"
  exit 0
fi

# uv is fetched into a virtual environment unless it is there.
command -v uv >/dev/null || python3 -c 'import ensurepip, venv' 2>/dev/null || packages+=(python3-venv)

# The names that are installed, and those that an installed package provides (libglib2.0-0t64 is a libglib2.0-0).
present=$(dpkg-query --show --showformat='${db:Status-Abbrev} ${Package} ${Provides}\n' |
  awk '/^.i/ { gsub(/\([^)]*\)|,/, " "); for (i = 2; i <= NF; i++) print $i }')
missing=()
for package in "${packages[@]}"; do
  grep -qxF "$package" <<<"$present" || missing+=("$package")
done
[ ${#missing[@]} -gt 0 ] || exit 0

install="apt-get install -y --no-install-recommends ${missing[*]}"
if [ "$(id -u)" -eq 0 ]; then
  export DEBIAN_FRONTEND=noninteractive
  apt-get update -q
  $install
else
  echo "Packages are missing. Run this once; meanwhile we go on without them:"
  echo "  sudo apt-get update && sudo $install"
fi
