//! The sockets of DNS: UDP and TCP, with the bounds that `dns` describes.

use std::{io, net::SocketAddr, sync::Arc, time::Duration};

use hickory_proto::op::ResponseCode;
use mortise_service::{ResourceService, Source};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream, UdpSocket},
    runtime::Handle,
    sync::{Semaphore, watch},
    task::spawn_blocking,
    time::{Instant, sleep, timeout},
};

use super::{
    DnsPorts,
    large::{Transport, large_answers},
    resolve::Resolver,
};
use crate::places::{Places, Usage};

/// Largest query, bytes. A query has a name of at most 255 bytes and some options.
const MAX_QUERY_BYTES: usize = 4_096;

/// Wait after a failure to accept or receive, for example without free file descriptors.
const RECEIVE_RETRY_WAIT: Duration = Duration::from_millis(100);

/// Consecutive faults before a wait: a single one may concern just one client, such as one that is gone.
const MAX_FAULTS: u32 = 16;

/// State that both sockets share.
struct Shared {
    resolver: Resolver,
    /// Places for queries over UDP.
    udp_turns: Arc<Semaphore>,
    /// Places for queries over TCP.
    tcp_turns: Arc<Semaphore>,
    connections: Arc<Places>,
    idle: Duration,
}

/// Answers until `stopping` is true.
pub(crate) async fn serve(
    ports: DnsPorts,
    service: ResourceService,
    mut stopping: watch::Receiver<bool>,
) -> io::Result<()> {
    let DnsPorts { udp, tcp, options } = ports;
    let shared = Arc::new(Shared {
        udp_turns: Arc::new(Semaphore::new(options.queries)),
        tcp_turns: Arc::new(Semaphore::new(large_answers(options.queries))),
        connections: Places::new("dns", options.max_connections),
        idle: options.idle,
        resolver: Resolver::new(service, options, tcp.local_addr()?),
    });
    tokio::select! {
        never = datagrams(Arc::new(udp), shared.clone()) => never,
        never = connections(tcp, shared, stopping.clone()) => never,
        _ = stopping.wait_for(|stopping| *stopping) => Ok(()),
    }
}

/// Counts a query and its answer.
fn count(by: &'static str, outcome: String) {
    metrics::counter!("mortise_dns_queries_total", "transport" => by, "outcome" => outcome).increment(1);
}

fn outcome(code: ResponseCode) -> String {
    match code {
        ResponseCode::NoError => "noerror",
        ResponseCode::NXDomain => "nxdomain",
        ResponseCode::ServFail => "servfail",
        ResponseCode::Refused => "refused",
        _ => "invalid",
    }
    .to_owned()
}

async fn datagrams(socket: Arc<UdpSocket>, shared: Arc<Shared>) -> io::Result<()> {
    let (mut buffer, mut faults) = (vec![0; MAX_QUERY_BYTES], 0);
    loop {
        let received = socket.recv_from(&mut buffer).await;
        let Some((length, from)) = received_or_wait(received, &mut faults).await else { continue };
        let Ok(turn) = shared.udp_turns.clone().try_acquire_owned() else {
            count("udp", "dropped".to_owned());
            continue;
        };
        let Some(query) = buffer.get(..length).map(<[u8]>::to_vec) else { continue };
        let (socket, shared) = (socket.clone(), shared.clone());
        tokio::spawn(async move {
            let _turn = turn;
            if let Some(answer) = shared.answer(&query, from, Transport::Udp).await {
                let _ = socket.send_to(&answer, from).await;
            }
        });
    }
}

/// Returns a successful result; after a fault returns `None`, with a wait after many consecutive ones.
async fn received_or_wait<T>(received: io::Result<T>, faults: &mut u32) -> Option<T> {
    if let Ok(received) = received {
        *faults = 0;
        return Some(received);
    }
    *faults = faults.saturating_add(1);
    if *faults > MAX_FAULTS {
        sleep(RECEIVE_RETRY_WAIT).await;
    }
    None
}

async fn connections(listener: TcpListener, shared: Arc<Shared>, stopping: watch::Receiver<bool>) -> io::Result<()> {
    loop {
        let Ok((stream, from)) = listener.accept().await else {
            sleep(RECEIVE_RETRY_WAIT).await;
            continue;
        };
        let Some(place) = shared.connections.take(Source::from_address(from.ip()), Instant::now()) else {
            metrics::counter!("mortise_dns_connections_refused_total").increment(1);
            continue;
        };
        let (shared, mut stopping) = (shared.clone(), stopping.clone());
        tokio::spawn(async move {
            tokio::select! {
                () = connection(stream, from, &place.usage, &shared) => {}
                () = place.usage.has_to_leave() => {}
                _ = stopping.wait_for(|stopping| *stopping) => {}
            }
        });
    }
}

/// Answers the queries of a connection one after the other until its end. The turn is given back before the answer is
/// written, and a connection whose client reads nothing is as idle as a silent one.
async fn connection(mut stream: TcpStream, from: SocketAddr, usage: &Arc<Usage>, shared: &Arc<Shared>) {
    loop {
        let Ok(Ok(query)) = timeout(shared.idle, read(&mut stream)).await else { return };
        let answer = {
            let _running = usage.begin_call();
            let Ok(Ok(turn)) = timeout(shared.idle, shared.tcp_turns.clone().acquire_owned()).await else {
                return count("tcp", "dropped".to_owned());
            };
            // On a thread of its own: thousands of records take milliseconds, and a busy worker of the runtime looks
            // for new datagrams only after dozens of such tasks.
            let (runtime, shared) = (Handle::current(), shared.clone());
            let answering = spawn_blocking(move || {
                let answer = runtime.block_on(shared.answer(&query, from, Transport::Tcp));
                drop(turn);
                answer
            });
            answering.await.ok().flatten()
        };
        let Some(answer) = answer else { return };
        let Ok(length) = u16::try_from(answer.len()) else { return };
        let message = [length.to_be_bytes().as_slice(), &answer].concat();
        match timeout(shared.idle, stream.write_all(&message)).await {
            Ok(Ok(())) => {}
            Ok(Err(_)) => return,
            Err(_) => return count("tcp", "unread".to_owned()),
        }
    }
}

/// Reads a query with its length prefix.
async fn read(stream: &mut TcpStream) -> io::Result<Vec<u8>> {
    let length = usize::from(stream.read_u16().await?);
    if length > MAX_QUERY_BYTES {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "the query is too long"));
    }
    let mut query = vec![0; length];
    stream.read_exact(&mut query).await?;
    Ok(query)
}

impl Shared {
    async fn answer(&self, query: &[u8], from: SocketAddr, by: Transport) -> Option<Vec<u8>> {
        let transport = match by {
            Transport::Udp => "udp",
            Transport::Tcp => "tcp",
        };
        match timeout(self.idle, self.resolver.answer(query, from, by)).await {
            Ok(Some((answer, code))) => {
                count(transport, outcome(code));
                Some(answer)
            }
            Ok(None) => {
                count(transport, "invalid".to_owned());
                None
            }
            Err(_) => {
                count(transport, "late".to_owned());
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_fault_that_lasts_is_waited_out_and_one_of_a_client_is_not() {
        let fault = || Err::<(), _>(io::Error::from(io::ErrorKind::ConnectionRefused));
        let (begun, mut faults) = (Instant::now(), 0);
        for _ in 0..1_000 {
            for _ in 0..MAX_FAULTS {
                assert_eq!(received_or_wait(fault(), &mut faults).await, None);
            }
            assert_eq!(received_or_wait(Ok(7), &mut faults).await, Some(7));
        }
        assert!(begun.elapsed() < RECEIVE_RETRY_WAIT * 100, "between them others are answered");
        let begun = Instant::now();
        for _ in 0..MAX_FAULTS + 3 {
            received_or_wait(fault(), &mut faults).await;
        }
        assert!(begun.elapsed() >= RECEIVE_RETRY_WAIT * 3, "{:?}", begun.elapsed());
    }
}
