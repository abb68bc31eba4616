//! Compression of answers: zstd, Brotli or gzip, by the client's `Accept-Encoding`.
//!
//! # Contract
//! Texts of at least [`MIN_BYTES`] are compressed, piece by piece while they are sent. Events are not, since they must
//! arrive at once, and neither are answers with an entity tag: the tag is for the bytes as they are. A compressed
//! answer is the same text.
//!
//! # Cost and limits
//! At most [`MAX_ENCODERS`] answers are compressed at once, each with at most about 4 MiB; further answers are sent as
//! they are. The windows of the encoders are bounded, not only their number.

use std::{
    io::{self, Write as _},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use axum::{
    body::{Body, Bytes, HttpBody},
    extract::{Request, State},
    http::{
        HeaderMap, HeaderValue, Method, StatusCode,
        header::{ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, ETAG, VARY},
    },
    middleware::Next,
    response::Response,
};
use brotli::{CompressorWriter, enc::BrotliEncoderParams};
use flate2::{Compression, write::GzEncoder};
use hyper::body::Frame;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use zstd::{stream::write::Encoder as ZstdEncoder, zstd_safe::CParameter};

/// Smallest compressed answer, bytes.
const MIN_BYTES: u64 = 1 << 10;

/// Answers that are compressed at once.
const MAX_ENCODERS: usize = 16;

/// Bytes that are compressed before other tasks have their turn.
const PIECE_BYTES: usize = 64 << 10;

/// Logarithm of the window of Brotli and zstd, bytes.
const WINDOW_LOG: u32 = 20;

/// Levels of speed: a few times faster than the network, with most of the saving.
const GZIP_LEVEL: u32 = 5;
const BROTLI_LEVEL: i32 = 4;
const ZSTD_LEVEL: i32 = 3;

/// Places for encoders. Cheap to clone.
#[derive(Clone)]
pub(super) struct Encoders(Arc<Semaphore>);

impl Default for Encoders {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(MAX_ENCODERS)))
    }
}

/// The middleware.
pub(super) async fn compress(State(encoders): State<Encoders>, request: Request, next: Next) -> Response {
    let wanted = Encoding::preferred(request.headers());
    let has_body = request.method() != Method::HEAD;
    let mut response = next.run(request).await;
    if !is_compressible(&response, has_body) {
        return response;
    }
    response.headers_mut().append(VARY, HeaderValue::from_static("accept-encoding"));
    let Some(encoding) = wanted else { return response };
    let (Ok(place), Ok(encoder)) = (encoders.0.try_acquire_owned(), Encoder::new(encoding)) else { return response };
    let headers = response.headers_mut();
    headers.remove(CONTENT_LENGTH);
    headers.insert(CONTENT_ENCODING, HeaderValue::from_static(encoding.name()));
    if !has_body {
        return response;
    }
    response.map(|inner| Body::new(Compressed { inner, encoder: Some(encoder), pending: Bytes::new(), _place: place }))
}

fn is_compressible(response: &Response, has_body: bool) -> bool {
    let headers = response.headers();
    let media = headers.get(CONTENT_TYPE).and_then(|media| media.to_str().ok()).unwrap_or_default();
    let is_text = media.ends_with("json") || (media.starts_with("text/") && !media.starts_with("text/event-stream"));
    let has_text = !matches!(response.status(), StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED);
    // The answer to HEAD has the length of the body that it leaves out, unless that is a stream.
    let length = headers.get(CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse().ok());
    let length = length.or(has_body.then(|| response.body().size_hint().upper()).flatten());
    let is_large = length.is_none_or(|bytes: u64| bytes >= MIN_BYTES);
    is_text && has_text && is_large && !headers.contains_key(ETAG) && !headers.contains_key(CONTENT_ENCODING)
}

/// A format of compressed answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Encoding {
    Zstd,
    Brotli,
    Gzip,
}

impl Encoding {
    const ALL: [Self; 3] = [Self::Zstd, Self::Brotli, Self::Gzip];

    fn name(self) -> &'static str {
        match self {
            Self::Zstd => "zstd",
            Self::Brotli => "br",
            Self::Gzip => "gzip",
        }
    }

    /// The format that the client accepts with the highest quality, the smallest one among equals; `None` if it prefers
    /// the bytes as they are.
    fn preferred(headers: &HeaderMap) -> Option<Self> {
        let accepted: Vec<_> = headers
            .get_all(ACCEPT_ENCODING)
            .iter()
            .filter_map(|value| value.to_str().ok())
            .flat_map(|value| value.split(','))
            .filter_map(coding)
            .collect();
        let quality_of = |names: &[&str]| {
            let named = |wanted: &str| accepted.iter().find(|(name, _)| name == wanted).map(|(_, quality)| *quality);
            names.iter().find_map(|name| named(name)).or_else(|| named("*")).unwrap_or(0.0)
        };
        let identity = accepted.iter().find(|(name, _)| name == "identity").map_or(0.0, |(_, quality)| *quality);
        let best = Self::ALL.into_iter().map(|encoding| {
            let quality = match encoding {
                Self::Gzip => quality_of(&["gzip", "x-gzip"]),
                other => quality_of(&[other.name()]),
            };
            (encoding, quality)
        });
        let best = best.fold(None, |best: Option<(Self, f32)>, next| match best {
            Some((_, quality)) if quality >= next.1 => best,
            _ => Some(next),
        });
        best.filter(|(_, quality)| *quality > 0.0 && *quality >= identity).map(|(encoding, _)| encoding)
    }
}

/// Parses a coding and its quality; `None` for malformed text.
fn coding(text: &str) -> Option<(String, f32)> {
    let mut parts = text.split(';').map(str::trim);
    let name = parts.next().filter(|name| !name.is_empty())?.to_ascii_lowercase();
    let quality = parts.find_map(|part| part.strip_prefix("q=").or_else(|| part.strip_prefix("Q=")));
    let quality = quality.map_or(Some(1.0), |quality| quality.parse().ok().filter(|q| (0.0..=1.0).contains(q)))?;
    Some((name, quality))
}

/// An encoder that writes into memory.
enum Encoder {
    Zstd(ZstdEncoder<'static, Vec<u8>>),
    Brotli(Box<CompressorWriter<Vec<u8>>>),
    Gzip(GzEncoder<Vec<u8>>),
}

impl Encoder {
    fn new(encoding: Encoding) -> io::Result<Self> {
        Ok(match encoding {
            Encoding::Zstd => {
                let mut encoder = ZstdEncoder::new(Vec::new(), ZSTD_LEVEL)?;
                encoder.set_parameter(CParameter::WindowLog(WINDOW_LOG))?;
                Self::Zstd(encoder)
            }
            Encoding::Brotli => {
                let lgwin = i32::try_from(WINDOW_LOG).unwrap_or_default();
                let parameters = BrotliEncoderParams { quality: BROTLI_LEVEL, lgwin, ..BrotliEncoderParams::default() };
                Self::Brotli(Box::new(CompressorWriter::with_params(Vec::new(), PIECE_BYTES, &parameters)))
            }
            Encoding::Gzip => Self::Gzip(GzEncoder::new(Vec::new(), Compression::new(GZIP_LEVEL))),
        })
    }

    /// Compresses a piece; returns the bytes that are ready.
    fn write(&mut self, piece: &[u8]) -> io::Result<Vec<u8>> {
        let out = match self {
            Self::Zstd(encoder) => {
                encoder.write_all(piece)?;
                encoder.get_mut()
            }
            Self::Brotli(encoder) => {
                encoder.write_all(piece)?;
                encoder.get_mut()
            }
            Self::Gzip(encoder) => {
                encoder.write_all(piece)?;
                encoder.get_mut()
            }
        };
        Ok(std::mem::take(out))
    }

    /// Ends the compressed text; returns its last bytes.
    fn finish(self) -> io::Result<Vec<u8>> {
        match self {
            Self::Zstd(encoder) => encoder.finish(),
            Self::Brotli(encoder) => Ok(encoder.into_inner()),
            Self::Gzip(encoder) => encoder.finish(),
        }
    }
}

/// The body of a compressed answer.
struct Compressed {
    inner: Body,
    /// `None` after the end.
    encoder: Option<Encoder>,
    /// Bytes of the inner body that are not compressed yet.
    pending: Bytes,
    _place: OwnedSemaphorePermit,
}

impl HttpBody for Compressed {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let this = &mut *self;
        loop {
            let Some(encoder) = this.encoder.as_mut() else { return Poll::Ready(None) };
            let written = if this.pending.is_empty() {
                match ready!(Pin::new(&mut this.inner).poll_frame(cx)) {
                    Some(Ok(frame)) => {
                        this.pending = frame.into_data().unwrap_or_default();
                        continue;
                    }
                    Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                    None => this.encoder.take().map_or(Ok(Vec::new()), Encoder::finish),
                }
            } else {
                let piece = this.pending.split_to(this.pending.len().min(PIECE_BYTES));
                encoder.write(&piece)
            };
            match written {
                Err(error) => return Poll::Ready(Some(Err(axum::Error::new(error)))),
                Ok(bytes) if !bytes.is_empty() => return Poll::Ready(Some(Ok(Frame::data(bytes.into())))),
                Ok(_) if this.encoder.is_none() => return Poll::Ready(None),
                Ok(_) => {
                    // Nothing is ready yet; other tasks have their turn before the next piece.
                    cx.waker().wake_by_ref();
                    return Poll::Pending;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use futures::stream;
    use http_body_util::BodyExt as _;

    use super::*;

    fn preferred(accept: &'static str) -> Option<Encoding> {
        Encoding::preferred(&[(ACCEPT_ENCODING, HeaderValue::from_static(accept))].into_iter().collect())
    }

    #[test]
    fn the_highest_quality_wins_and_then_the_smallest_result() {
        for (accept, wanted) in [
            ("", None),
            ("identity", None),
            ("gzip", Some(Encoding::Gzip)),
            ("x-gzip", Some(Encoding::Gzip)),
            ("GZIP", Some(Encoding::Gzip)),
            ("gzip, deflate, br", Some(Encoding::Brotli)),
            ("gzip, deflate, br, zstd", Some(Encoding::Zstd)),
            ("br;q=0.5, gzip;q=0.8", Some(Encoding::Gzip)),
            ("gzip;q=0", None),
            ("gzip;q=2", None),
            ("*", Some(Encoding::Zstd)),
            ("*, zstd;q=0", Some(Encoding::Brotli)),
            ("gzip;q=0.5, identity", None),
            ("deflate", None),
        ] {
            assert_eq!(preferred(accept), wanted, "{accept}");
        }
        assert_eq!(Encoding::preferred(&HeaderMap::new()), None);
    }

    fn decoded(encoding: Encoding, bytes: &[u8]) -> Vec<u8> {
        let mut text = Vec::new();
        match encoding {
            Encoding::Zstd => text = zstd::decode_all(bytes).unwrap(),
            Encoding::Brotli => drop(brotli::Decompressor::new(bytes, 4_096).read_to_end(&mut text).unwrap()),
            Encoding::Gzip => drop(flate2::read::GzDecoder::new(bytes).read_to_end(&mut text).unwrap()),
        }
        text
    }

    #[tokio::test]
    async fn a_body_of_many_pieces_is_whole() {
        let text: String = (0..200_000).map(|n| format!("{{\"n\": {n}}}\n")).collect();
        for encoding in Encoding::ALL {
            for size in [100, 70_000, usize::MAX] {
                let pieces = text.as_bytes().chunks(size.min(text.len()));
                let pieces: Vec<_> = pieces.map(|piece| Ok::<_, io::Error>(Bytes::copy_from_slice(piece))).collect();
                let place = Arc::new(Semaphore::new(1)).acquire_owned().await.unwrap();
                let body = Compressed {
                    inner: Body::from_stream(stream::iter(pieces)),
                    encoder: Some(Encoder::new(encoding).unwrap()),
                    pending: Bytes::new(),
                    _place: place,
                };
                let compressed = body.collect().await.unwrap().to_bytes();
                assert!(compressed.len() < text.len() / 3, "{encoding:?}: {}", compressed.len());
                assert!(decoded(encoding, &compressed) == text.as_bytes(), "{encoding:?} in pieces of {size}");
            }
        }
    }

    #[tokio::test]
    async fn an_error_of_the_body_ends_it() {
        let pieces = [Ok(Bytes::from_static(b"x")), Err(io::Error::other("broken"))];
        let place = Arc::new(Semaphore::new(1)).acquire_owned().await.unwrap();
        let encoder = Some(Encoder::new(Encoding::Gzip).unwrap());
        let inner = Body::from_stream(stream::iter(pieces));
        let body = Compressed { inner, encoder, pending: Bytes::new(), _place: place };
        assert!(body.collect().await.is_err());
    }
}
