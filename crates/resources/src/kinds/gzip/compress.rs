//! The format of `gzip`, without anything in it that depends on time or place.

use std::io::{self, Write};

use flate2::Crc;
use mgmt_resource::Invalid;
use miniz_oxide::deflate::core::{CompressionStrategy, CompressorOxide, create_comp_flags_from_zip_params};
use miniz_oxide::deflate::stream::deflate;
use miniz_oxide::{MZFlush, MZStatus};

/// What is written at once.
const CHUNK: usize = 32 << 10;

/// How hard to try.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Level {
    HuffmanOnly,
    /// From 0 to 9.
    Plain(u8),
}

impl Level {
    pub(super) fn read(level: i64) -> Result<Level, Invalid> {
        match u8::try_from(level) {
            Ok(level @ 0..=9) => Ok(Level::Plain(level)),
            _ if level == -1 => Ok(Level::Plain(6)),
            _ if level == -2 => Ok(Level::HuffmanOnly),
            _ => Err(Invalid::field("level", format!("expected a number from -2 to 9, found {level}"))),
        }
    }

    fn flags(self) -> u32 {
        let (level, strategy) = match self {
            Level::HuffmanOnly => (6, CompressionStrategy::HuffmanOnly),
            Level::Plain(level) => (level, CompressionStrategy::Default),
        };
        // No window bits: the format of zlib has a header of its own, which has no place here.
        create_comp_flags_from_zip_params(level.into(), 0, strategy as i32)
    }
}

/// Compresses what is written to it.
pub(super) struct Compressor<'a> {
    to: &'a mut dyn Write,
    state: Box<CompressorOxide>,
    sum: Crc,
    buffer: Vec<u8>,
}

impl<'a> Compressor<'a> {
    pub(super) fn new(to: &'a mut dyn Write, level: Level) -> io::Result<Compressor<'a>> {
        let effort = match level {
            Level::Plain(9) => 2,
            Level::Plain(1) => 4,
            _ => 0,
        };
        // The magic number, deflate, no name, no time, the effort, and no system in particular.
        to.write_all(&[0x1f, 0x8b, 8, 0, 0, 0, 0, 0, effort, 255])?;
        let state = Box::new(CompressorOxide::new(level.flags()));
        Ok(Compressor { to, state, sum: Crc::new(), buffer: vec![0; CHUNK] })
    }

    pub(super) fn finish(mut self) -> io::Result<()> {
        while self.step(&[], MZFlush::Finish)?.1 != MZStatus::StreamEnd {}
        self.to.write_all(&self.sum.sum().to_le_bytes())?;
        self.to.write_all(&self.sum.amount().to_le_bytes())
    }

    /// Takes some of the input, and passes on what comes of it.
    fn step(&mut self, input: &[u8], flush: MZFlush) -> io::Result<(usize, MZStatus)> {
        let result = deflate(&mut self.state, input, &mut self.buffer, flush);
        let status = result.status.map_err(|error| io::Error::other(format!("{error:?}")))?;
        self.to.write_all(&self.buffer[..result.bytes_written])?;
        Ok((result.bytes_consumed, status))
    }
}

impl Write for Compressor<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if bytes.is_empty() {
            return Ok(0);
        }
        loop {
            let (taken, _) = self.step(bytes, MZFlush::None)?;
            if taken > 0 {
                self.sum.update(&bytes[..taken]);
                return Ok(taken);
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    fn compressed(content: &[u8], level: i64) -> Vec<u8> {
        let mut out = Vec::new();
        let mut compressor = Compressor::new(&mut out, Level::read(level).unwrap()).unwrap();
        compressor.write_all(content).unwrap();
        compressor.finish().unwrap();
        out
    }

    #[test]
    fn what_is_compressed_can_be_had_back_at_every_level() {
        let mixed: Vec<u8> =
            (0..300_000_u32).flat_map(|n| (n.wrapping_mul(2_654_435_761) >> 13).to_le_bytes()).collect();
        for content in [b"".to_vec(), b"a".to_vec(), b"abc ".repeat(100_000), mixed] {
            for level in -2..=9 {
                let compressed = compressed(&content, level);
                let mut back = Vec::new();
                flate2::read::GzDecoder::new(&compressed[..]).read_to_end(&mut back).unwrap();
                assert!(back == content, "{} bytes at level {level}", content.len());
            }
        }
    }

    #[test]
    fn more_effort_gives_less_and_huffman_finds_no_repetitions() {
        let content = b"the same again and ".repeat(1000);
        let size = |level| compressed(&content, level).len();
        assert!(size(9) <= size(1) && size(1) < size(-2) && size(-2) < size(0));
        assert!(size(0) > content.len());
        assert_eq!(compressed(&content, -1), compressed(&content, 6));
    }
}
