//! Reads Zstandard files of any number of frames and verifies their checksums. The decoder leaves both to its
//! caller.

use ruzstd::decoding::errors::{FrameDecoderError, ReadFrameHeaderError};
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};
use std::io::{self, BufRead, Read};

/// Decompresses everything that `source` holds.
pub struct ZstdReader<R> {
    source: R,
    decoder: FrameDecoder,
    in_frame: bool,
}

impl<R: BufRead> ZstdReader<R> {
    /// A reader of `source`, which holds frames from its beginning to its end.
    pub fn new(source: R) -> Self {
        Self { source, decoder: FrameDecoder::new(), in_frame: false }
    }

    /// Starts the next frame; `false` at the end of the source.
    fn start_frame(&mut self) -> io::Result<bool> {
        while !self.source.fill_buf()?.is_empty() {
            match self.decoder.reset(&mut self.source) {
                Ok(()) => return Ok(true),
                Err(FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::SkipFrame {
                    length,
                    ..
                })) => {
                    let skipped = io::copy(&mut (&mut self.source).take(length.into()), &mut io::sink())?;
                    if skipped < u64::from(length) {
                        return Err(io::Error::new(
                            io::ErrorKind::UnexpectedEof,
                            "a skippable frame is cut off",
                        ));
                    }
                }
                Err(error) => return Err(io::Error::other(error)),
            }
        }
        Ok(false)
    }
}

impl<R: BufRead> Read for ZstdReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            if !self.in_frame {
                if !self.start_frame()? {
                    return Ok(0);
                }
                self.in_frame = true;
            }
            while self.decoder.can_collect() == 0 && !self.decoder.is_finished() {
                self.decoder
                    .decode_blocks(&mut self.source, BlockDecodingStrategy::UptoBlocks(1))
                    .map_err(io::Error::other)?;
            }
            if self.decoder.can_collect() > 0 || buffer.is_empty() {
                return self.decoder.read(buffer);
            }
            let (stored, computed) =
                (self.decoder.get_checksum_from_data(), self.decoder.get_calculated_checksum());
            if stored.is_some() && computed.is_some() && stored != computed {
                return Err(io::Error::new(io::ErrorKind::InvalidData, "the checksum does not match"));
            }
            self.in_frame = false;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ruzstd::encoding::{CompressionLevel, compress_to_vec};

    fn read(bytes: &[u8]) -> io::Result<String> {
        let mut text = String::new();
        ZstdReader::new(bytes).read_to_string(&mut text)?;
        Ok(text)
    }

    #[test]
    fn all_frames_are_read_and_skippable_ones_skipped() {
        let frame = |text: &str| compress_to_vec(text.as_bytes(), CompressionLevel::Fastest);
        let skippable = [&0x184D_2A50u32.to_le_bytes()[..], &3u32.to_le_bytes(), b"abc"].concat();
        let all = [frame("one, "), skippable.clone(), frame(&"two ".repeat(100_000))].concat();
        assert_eq!(read(&all).unwrap(), format!("one, {}", "two ".repeat(100_000)));
        assert_eq!(read(b"").unwrap(), "");
        assert!(read(&[frame("one"), skippable[..9].to_vec()].concat()).is_err(), "cut off");
    }

    #[test]
    fn damage_is_noticed() {
        let good = compress_to_vec("a line of text\n".repeat(1000).as_bytes(), CompressionLevel::Fastest);
        for len in 1..good.len() {
            assert!(read(&good[..len]).is_err(), "{len} of {} bytes", good.len());
        }
        let mut damaged = good.clone();
        *damaged.last_mut().unwrap() ^= 0x10;
        assert!(read(&damaged).unwrap_err().to_string().contains("checksum"));
    }
}
