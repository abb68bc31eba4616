//! The messages of a request as they arrive: their lengths, and their number.
//!
//! The prefix of each message has its length, so one that is too large is refused before it arrives. A unary call has
//! exactly one message; tonic would ignore a second one, and blame itself for a missing one.

use tonic::Status;

use super::request::SMALL_MESSAGE_BYTES;
use crate::grpc::frames::PREFIX_BYTES;

/// The progress of a request's messages.
#[derive(Debug)]
pub(super) struct Messages {
    /// Largest message, bytes.
    limit: usize,
    /// Whether the call takes any number of messages, not just one.
    is_stream: bool,
    /// Bytes of the current prefix that have arrived.
    prefix_read: usize,
    /// Missing bytes of the current message; while its prefix arrives, its length as far as it is known.
    missing: u64,
    /// Whether a message has begun.
    has_begun: bool,
}

impl Messages {
    /// Expects one message, or a stream, of messages up to `limit` bytes.
    pub(super) fn new(limit: usize, is_stream: bool) -> Self {
        Self { limit, is_stream, prefix_read: 0, missing: 0, has_begun: false }
    }

    /// Takes arriving bytes.
    ///
    /// # Errors
    /// `ResourceExhausted`: a message is too large. `Unimplemented`: a second message for a unary call.
    pub(super) fn take(&mut self, mut data: &[u8]) -> Result<(), Status> {
        while !data.is_empty() {
            if self.prefix_read < PREFIX_BYTES {
                if self.prefix_read == 0 && self.has_begun && !self.is_stream {
                    return Err(Status::unimplemented("the method takes one message, and the request holds more"));
                }
                self.has_begun = true;
                let (head, rest) = data.split_at(data.len().min(PREFIX_BYTES - self.prefix_read));
                // The flag in front of the length is shifted out.
                self.missing = head.iter().fold(self.missing, |length, byte| length << 8 | u64::from(*byte));
                self.missing &= u64::from(u32::MAX);
                self.prefix_read += head.len();
                data = rest;
                if self.prefix_read == PREFIX_BYTES && self.missing > self.limit as u64 {
                    return Err(self.too_large());
                }
            }
            if self.prefix_read == PREFIX_BYTES {
                let content = usize::try_from(self.missing).unwrap_or(usize::MAX).min(data.len());
                self.missing -= content as u64;
                data = data.get(content..).unwrap_or_default();
                if self.missing == 0 {
                    self.prefix_read = 0;
                }
            }
        }
        Ok(())
    }

    fn too_large(&self) -> Status {
        let setting = if self.limit == SMALL_MESSAGE_BYTES { "" } else { " (service.max_request_bytes)" };
        Status::resource_exhausted(format!(
            "the message of the request takes {} bytes, more than the limit of {}{setting}; send less at once",
            self.missing, self.limit
        ))
    }

    /// Checks that the request may end here.
    ///
    /// # Errors
    /// `InvalidArgument`: within a message. `Unimplemented`: without the message of a unary call.
    pub(super) fn end(&self) -> Result<(), Status> {
        if self.prefix_read > 0 {
            return Err(Status::invalid_argument("the request ended within its message"));
        }
        match self.has_begun || self.is_stream {
            true => Ok(()),
            false => Err(Status::unimplemented("the method takes one message, and the request holds none")),
        }
    }
}

#[cfg(test)]
mod tests {
    use tonic::Code;

    use super::*;

    fn message(length: usize) -> Vec<u8> {
        [&[0], u32::try_from(length).unwrap().to_be_bytes().as_slice(), &vec![7; length]].concat()
    }

    /// Sends bytes in pieces; returns the code of the refusal.
    fn sent(bytes: &[u8], piece: usize, is_stream: bool) -> Option<Code> {
        let mut messages = Messages::new(300, is_stream);
        for piece in bytes.chunks(piece) {
            if let Err(status) = messages.take(piece) {
                return Some(status.code());
            }
        }
        messages.end().err().map(|status| status.code())
    }

    #[test]
    fn a_unary_call_has_exactly_one_message_and_a_stream_any_number() {
        let all = [message(0), message(1), message(255), message(256), message(300)];
        for piece in [1, 2, 5, 6, 7, 1_000] {
            for one in &all {
                assert_eq!(sent(one, piece, false), None, "{piece}");
                assert_eq!(sent(&[one.as_slice(), &[0]].concat(), piece, false), Some(Code::Unimplemented));
                assert_eq!(sent(&one.repeat(3), piece, false), Some(Code::Unimplemented));
                assert_eq!(sent(&one.repeat(3), piece, true), None);
                if one.len() > 5 {
                    assert_eq!(sent(&one[..one.len() - 1], piece, false), Some(Code::InvalidArgument));
                }
            }
            assert_eq!(sent(&all.concat(), piece, true), None);
            assert_eq!(sent(&[0, 0], piece, true), Some(Code::InvalidArgument));
            for length in [301, 65_536, u32::MAX] {
                let large = [&[0], length.to_be_bytes().as_slice()].concat();
                assert_eq!(sent(&large, piece, false), Some(Code::ResourceExhausted), "before it arrives");
                let behind = [message(9), large].concat();
                assert_eq!(sent(&behind, piece, true), Some(Code::ResourceExhausted));
            }
        }
        assert_eq!(sent(&[], 1, false), Some(Code::Unimplemented));
        assert_eq!(sent(&[], 1, true), None);
    }
}
