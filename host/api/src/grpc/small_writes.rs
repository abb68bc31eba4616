//! A connection that joins small writes.
//!
//! HTTP/2 hands over its output in pieces: heads of frames, small frames, and contents. To a transport with vectored
//! writes it hands each content above 255 bytes at once, and the following bytes, such as the end of an answer, in
//! another system call; without vectored writes the threshold is 1,023 bytes. So this transport has no vectored writes,
//! keeps small pieces until a larger one comes or the writer flushes, and writes both in one system call. tokio's
//! `BufWriter` would write its content before a large slice separately.
//!
//! A connection holds up to [`MAX_HELD_BYTES`] bytes, and none before its first write.

use std::{
    io::{self, IoSlice},
    pin::Pin,
    task::{Context, Poll, ready},
};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Most bytes that are kept.
const MAX_HELD_BYTES: usize = 4 << 10;

/// A connection with joined writes; see the module's documentation.
pub(super) struct SmallWrites<T> {
    inner: T,
    held: Vec<u8>,
    /// Bytes of the buffer that are already written.
    written: usize,
}

impl<T: AsyncWrite + Unpin> SmallWrites<T> {
    /// Wraps a connection.
    pub(super) fn new(inner: T) -> Self {
        Self { inner, held: Vec::new(), written: 0 }
    }

    /// The wrapped connection.
    pub(super) fn inner(&self) -> &T {
        &self.inner
    }

    /// Whether bytes are kept.
    pub(super) fn holds_bytes(&self) -> bool {
        self.held.len() > self.written
    }

    /// Writes the kept bytes and, in the same call, as much of `more` as possible; returns that amount.
    fn poll_write_held(&mut self, cx: &mut Context<'_>, more: &[u8]) -> Poll<io::Result<usize>> {
        while let Some(left) = self.held.get(self.written..).filter(|left| !left.is_empty()) {
            let length = left.len();
            let slices = [IoSlice::new(left), IoSlice::new(more)];
            let count = ready!(Pin::new(&mut self.inner).poll_write_vectored(cx, &slices))?;
            if count == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.written += count.min(length);
            if let Some(of_more) = count.checked_sub(length).filter(|count| *count > 0) {
                self.discard();
                return Poll::Ready(Ok(of_more));
            }
        }
        self.discard();
        Poll::Ready(Ok(0))
    }

    /// Drops the kept bytes.
    pub(super) fn discard(&mut self) {
        self.held.clear();
        self.written = 0;
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for SmallWrites<T> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_read(cx, buf)
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for SmallWrites<T> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        if self.held.len() + buf.len() <= MAX_HELD_BYTES {
            self.held.extend_from_slice(buf);
            return Poll::Ready(Ok(buf.len()));
        }
        match ready!(self.poll_write_held(cx, buf))? {
            0 => Pin::new(&mut self.inner).poll_write(cx, buf),
            of_buf => Poll::Ready(Ok(of_buf)),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_write_held(cx, &[]))?;
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_write_held(cx, &[]))?;
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncWriteExt as _;

    use super::*;

    /// Takes `most` bytes at a time, and nothing at every other call.
    struct Slow {
        taken: Vec<u8>,
        writes: usize,
        most: usize,
        waits: bool,
    }

    impl AsyncWrite for Slow {
        fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
            self.poll_write_vectored(cx, &[IoSlice::new(buf)])
        }

        fn poll_write_vectored(
            mut self: Pin<&mut Self>,
            cx: &mut Context<'_>,
            bufs: &[IoSlice<'_>],
        ) -> Poll<io::Result<usize>> {
            self.waits = !self.waits;
            if self.waits {
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            self.writes += 1;
            let all: Vec<u8> = bufs.iter().flat_map(|slice| slice.to_vec()).take(self.most).collect();
            self.taken.extend(&all);
            Poll::Ready(Ok(all.len()))
        }

        fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }

        fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }
    }

    fn slow(most: usize) -> SmallWrites<Slow> {
        SmallWrites::new(Slow { taken: Vec::new(), writes: 0, most, waits: false })
    }

    #[tokio::test]
    async fn what_is_written_arrives_once_and_in_order_however_little_is_taken() {
        let mut random = fastrand::Rng::with_seed(19);
        let mut larger = 0;
        for round in 0..300 {
            let mut connection = slow(1 + random.usize(..3 * MAX_HELD_BYTES));
            let mut expected = Vec::new();
            for _ in 0..20 {
                let size = if random.bool() { random.usize(..40) } else { random.usize(..2 * MAX_HELD_BYTES) };
                larger += usize::from(size > MAX_HELD_BYTES);
                let piece: Vec<u8> = std::iter::repeat_with(|| random.u8(..)).take(size).collect();
                connection.write_all(&piece).await.unwrap();
                expected.extend(piece);
                assert!(connection.held.len() <= MAX_HELD_BYTES);
                if random.u8(..4) == 0 {
                    connection.flush().await.unwrap();
                    assert_eq!(connection.inner.taken, expected, "{round}");
                }
            }
            connection.shutdown().await.unwrap();
            assert_eq!(connection.inner.taken, expected, "{round}");
        }
        assert!(larger > 1_000, "{larger}");
    }

    #[tokio::test]
    async fn small_writes_take_one_system_call_with_what_follows() {
        let mut connection = slow(usize::MAX);
        for _ in 0..3 {
            connection.write_all(b"small").await.unwrap();
        }
        assert_eq!(connection.inner().writes, 0);
        connection.flush().await.unwrap();
        assert_eq!(connection.inner().writes, 1);
        connection.write_all(b"head").await.unwrap();
        connection.write_all(&[7; 2 * MAX_HELD_BYTES]).await.unwrap();
        assert_eq!((connection.inner().writes, connection.inner().taken.len()), (2, 15 + 4 + 2 * MAX_HELD_BYTES));
        connection.flush().await.unwrap();
        assert_eq!(connection.inner().writes, 2);
    }
}
