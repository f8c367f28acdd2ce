//! `weight.bin`: the weights of a package, version 2 of MIL's blob file.
//!
//! A header of 64 bytes (count, version), then for each blob 64 bytes about it and its data, each at a multiple of 64. All
//! numbers are little-endian. Layout: apple/coremltools, `mlmodel/src/MILBlob/Blob/StorageFormat.hpp`.

use std::io::{self, Seek, SeekFrom, Write};

use half::f16;

const ALIGNMENT: u64 = 64;
const VERSION: u32 = 2;
const SENTINEL: u32 = 0xDEAD_BEEF;
/// How many elements are brought into their byte order at a time.
const CHUNK: usize = 1 << 16;

/// Codes of element types, which are not those of MIL programs.
#[derive(Clone, Copy)]
enum ElementType {
    Float16 = 1,
    Uint8 = 3,
}

/// Writes a blob file from its beginning.
pub struct BlobWriter<W> {
    file: W,
    position: u64,
    blobs: u32,
}

impl<W: Write + Seek> BlobWriter<W> {
    /// A file without blobs.
    ///
    /// # Errors
    /// Those of the file.
    pub fn new(mut file: W) -> io::Result<Self> {
        file.write_all(&[0; ALIGNMENT as usize])?;
        Ok(Self {
            file,
            position: ALIGNMENT,
            blobs: 0,
        })
    }

    /// Append values; the result is the offset that stands for them in a program.
    ///
    /// # Errors
    /// Those of the file.
    pub fn add_fp16(&mut self, values: &[f16]) -> io::Result<u64> {
        let offset = self.begin(ElementType::Float16, values.len() as u64 * 2)?;
        for chunk in values.chunks(CHUNK) {
            let bytes: Vec<u8> = chunk.iter().flat_map(|value| value.to_le_bytes()).collect();
            self.file.write_all(&bytes)?;
        }
        Ok(offset)
    }

    /// Append values; the result is the offset that stands for them in a program.
    ///
    /// # Errors
    /// Those of the file.
    pub fn add_uint8(&mut self, values: &[u8]) -> io::Result<u64> {
        let offset = self.begin(ElementType::Uint8, values.len() as u64)?;
        self.file.write_all(values)?;
        Ok(offset)
    }

    /// How many bytes the file has.
    pub fn bytes(&self) -> u64 {
        self.position
    }

    /// Complete the header; the result is the file.
    ///
    /// # Errors
    /// Those of the file.
    pub fn finish(mut self) -> io::Result<W> {
        self.file.seek(SeekFrom::Start(0))?;
        self.file.write_all(&self.blobs.to_le_bytes())?;
        self.file.write_all(&VERSION.to_le_bytes())?;
        self.file.flush()?;
        Ok(self.file)
    }

    /// Write what stands before the data; the data must follow.
    fn begin(&mut self, element_type: ElementType, bytes: u64) -> io::Result<u64> {
        let offset = self.position.next_multiple_of(ALIGNMENT);
        let data = offset + ALIGNMENT;
        let mut gap_and_head = vec![0; (offset - self.position) as usize];
        gap_and_head.extend(SENTINEL.to_le_bytes());
        gap_and_head.extend((element_type as u32).to_le_bytes());
        gap_and_head.extend(bytes.to_le_bytes());
        gap_and_head.extend(data.to_le_bytes());
        gap_and_head.resize((data - self.position) as usize, 0);
        self.file.write_all(&gap_and_head)?;
        self.position = data + bytes;
        self.blobs += 1;
        Ok(offset)
    }
}

/// The blobs of a file in the order in which they were written.
///
/// It looks at what it needs to find them. Whether the file is one of ours, only a comparison with [`Compare`] shows.
pub struct BlobReader<'a> {
    file: &'a [u8],
    position: u64,
}

impl<'a> BlobReader<'a> {
    /// The blobs of `file`.
    pub fn new(file: &'a [u8]) -> Self {
        Self {
            file,
            position: ALIGNMENT,
        }
    }

    /// The data of the next blob, which must be at `offset`.
    ///
    /// # Errors
    /// What is wrong with it, as half a sentence.
    pub fn next(&mut self, offset: u64) -> Result<&'a [u8], String> {
        if self.position.checked_next_multiple_of(ALIGNMENT) != Some(offset) {
            return Err(format!("it names a weight at {offset}, where none begins"));
        }
        let found = || {
            let head = self.file.get(usize::try_from(offset).ok()?..)?;
            let bytes = u64::from_le_bytes(head.get(8..16)?.try_into().ok()?);
            head.get(ALIGNMENT as usize..)?
                .get(..usize::try_from(bytes).ok()?)
        };
        let data = found().ok_or_else(|| format!("the weight at {offset} is cut off"))?;
        self.position = offset + ALIGNMENT + data.len() as u64;
        Ok(data)
    }
}

/// A file that is not written but compared with what would be.
pub struct Compare<'a> {
    expected: &'a [u8],
    position: usize,
    /// Written first and last.
    header: [u8; ALIGNMENT as usize],
}

impl<'a> Compare<'a> {
    /// Nothing of `expected` has been compared yet.
    pub fn new(expected: &'a [u8]) -> Self {
        Self {
            expected,
            position: 0,
            header: [0; ALIGNMENT as usize],
        }
    }

    /// Whether what was written is all of the file, for one whose writing ended in its header.
    pub fn is_same(&self, bytes: u64) -> bool {
        self.expected.len() as u64 == bytes && self.expected.starts_with(&self.header)
    }
}

impl Write for Compare<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let end = self.position + bytes.len();
        if let Some(header) = self.header.get_mut(self.position..end) {
            header.copy_from_slice(bytes);
        } else if self.expected.get(self.position..end) != Some(bytes) {
            return Err(io::ErrorKind::InvalidData.into());
        }
        self.position = end;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Seek for Compare<'_> {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        match to {
            SeekFrom::Start(position) => {
                self.position = position as usize;
                Ok(position)
            }
            _ => Err(io::ErrorKind::Unsupported.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use half::f16;

    use super::BlobWriter;

    #[test]
    fn blobs_lie_at_multiples_of_64_behind_what_describes_them() {
        let mut writer = BlobWriter::new(Cursor::new(vec![])).unwrap();
        let first = writer.add_uint8(&[7, 8, 9]).unwrap();
        let second = writer.add_fp16(&[f16::ONE, f16::NEG_INFINITY]).unwrap();
        let bytes = writer.finish().unwrap().into_inner();

        assert_eq!((first, second), (64, 192));
        assert_eq!(bytes.len(), 192 + 64 + 4, "nothing follows the last blob");
        assert_eq!(bytes[..8], [2, 0, 0, 0, 2, 0, 0, 0], "count and version");
        assert_eq!(bytes[64..72], [0xEF, 0xBE, 0xAD, 0xDE, 3, 0, 0, 0]);
        assert_eq!(
            bytes[72..88],
            [3, 0, 0, 0, 0, 0, 0, 0, 128, 0, 0, 0, 0, 0, 0, 0]
        );
        assert_eq!(bytes[128..131], [7, 8, 9]);
        assert_eq!(bytes[192..200], [0xEF, 0xBE, 0xAD, 0xDE, 1, 0, 0, 0]);
        assert_eq!(
            bytes[200..216],
            [4, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0]
        );
        assert_eq!(bytes[256..], [0x00, 0x3C, 0x00, 0xFC]);
        let rest = [
            &bytes[8..64],
            &bytes[88..128],
            &bytes[131..192],
            &bytes[216..256],
        ]
        .concat();
        assert!(rest.iter().all(|byte| *byte == 0));
    }

    /// More elements than are written at a time.
    #[test]
    fn large_blobs_are_whole() {
        let values: Vec<f16> = (0..super::CHUNK + 5)
            .map(|i| f16::from_bits(i as u16))
            .collect();
        let mut writer = BlobWriter::new(Cursor::new(vec![])).unwrap();
        writer.add_fp16(&values).unwrap();
        let bytes = writer.finish().unwrap().into_inner();
        let read: Vec<f16> = bytes[128..]
            .chunks(2)
            .map(|b| f16::from_le_bytes([b[0], b[1]]))
            .collect();
        assert!(
            read.iter()
                .zip(&values)
                .all(|(a, b)| a.to_bits() == b.to_bits())
        );
        assert_eq!(read.len(), values.len());
    }
}
