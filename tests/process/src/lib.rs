//! Server processes: started until they are ready, reached by gRPC, and ended. A dropped process is killed.
//!
//! A server is ready when it prints a line with `grpc=ADDR`, and `http=ADDR` if it has that port. Its standard error is
//! discarded, unless the command says otherwise.

pub mod etcd;
pub mod proxy;

use std::{
    error::Error,
    net::SocketAddr,
    path::PathBuf,
    process::{ExitStatus, Stdio},
    time::{Duration, Instant},
};

use tokio::{
    io::{AsyncBufReadExt as _, BufReader},
    process::{Child, Command},
};
use tonic::transport::{Channel, Endpoint};

/// Result of a command of tests.
pub type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

/// Ticks of a second in /proc, as Linux shows them to programs on every machine that Rust's std supports.
const TICKS: f64 = 100.0;

/// A server that is ready.
pub struct Process {
    child: Child,
    /// Address of gRPC.
    pub addr: SocketAddr,
    /// Address of HTTP.
    pub http: Option<SocketAddr>,
    /// Time from spawning the process to its ready line.
    pub ready_after: Duration,
}

impl Process {
    /// Starts a command, and waits until it is ready.
    ///
    /// # Errors
    /// The command cannot be started, or ends before it is ready.
    pub async fn start(mut command: Command) -> Outcome<Self> {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).kill_on_drop(true);
        let begun = Instant::now();
        let mut child = command.spawn()?;
        let mut lines = BufReader::new(child.stdout.take().ok_or("no stdout")?).lines();
        while let Some(line) = lines.next_line().await? {
            let addr = |name: &str| line.split_whitespace().find_map(|word| word.strip_prefix(name));
            if let Some(grpc) = addr("grpc=") {
                let http = addr("http=").map(str::parse).transpose()?;
                return Ok(Self { child, addr: grpc.parse()?, http, ready_after: begun.elapsed() });
            }
        }
        Err("the server ended before it was ready".into())
    }

    /// Returns the id of the process.
    ///
    /// # Errors
    /// The process has ended.
    pub fn pid(&self) -> Outcome<u32> {
        Ok(self.child.id().ok_or("the server ended")?)
    }

    /// Resident memory, MiB.
    ///
    /// # Errors
    /// The process has ended.
    pub fn resident_mib(&self) -> Outcome<f64> {
        resident_mib_of(&self.pid()?.to_string())
    }

    /// Processor time that the server has taken so far, seconds.
    ///
    /// # Errors
    /// The process has ended.
    pub fn processor_seconds(&self) -> Outcome<f64> {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.pid()?))?;
        let (_, rest) = stat.rsplit_once(')').ok_or("no name")?;
        let ticks: Vec<f64> = rest.split_whitespace().skip(11).take(2).map(str::parse).collect::<Result<_, _>>()?;
        Ok(ticks.iter().sum::<f64>() / TICKS)
    }

    /// Sends a signal, such as `STOP`.
    ///
    /// # Errors
    /// The process has ended.
    pub async fn signal(&self, name: &str) -> Outcome<()> {
        Command::new("kill").arg(format!("-{name}")).arg(self.pid()?.to_string()).status().await?;
        Ok(())
    }

    /// Ends the server with SIGTERM, as an operator does.
    ///
    /// # Errors
    /// The process has ended.
    pub async fn stop(self) -> Outcome<()> {
        self.terminate().await?;
        Ok(())
    }

    /// Ends the server with SIGTERM, and returns its exit status.
    ///
    /// # Errors
    /// The process has ended.
    pub async fn terminate(mut self) -> Outcome<ExitStatus> {
        self.signal("TERM").await?;
        Ok(self.child.wait().await?)
    }

    /// Waits until the process ends by itself.
    ///
    /// # Errors
    /// The process cannot be waited for.
    pub async fn ended(&mut self) -> Outcome<ExitStatus> {
        Ok(self.child.wait().await?)
    }

    /// Ends the server with SIGKILL, and waits for its end.
    ///
    /// # Errors
    /// The process has ended.
    pub async fn kill(mut self) -> Outcome<()> {
        self.child.kill().await?;
        Ok(())
    }
}

/// Opens a connection with a client's settings.
///
/// # Errors
/// The server cannot be reached.
pub async fn channel(addr: SocketAddr) -> Outcome<Channel> {
    Ok(Endpoint::from_shared(format!("http://{addr}"))?
        .tcp_nodelay(true)
        .initial_stream_window_size(16 << 20)
        .initial_connection_window_size(32 << 20)
        .connect()
        .await?)
}

/// Returns the path of the binary with this name next to this one.
///
/// # Errors
/// The binary is not there.
pub fn sibling(name: &str) -> Outcome<PathBuf> {
    let path = std::env::current_exe()?.with_file_name(name);
    if path.exists() {
        return Ok(path);
    }
    Err(format!("{name} is not next to {}: build it with `cargo build -p {name}`", path.display()).into())
}

/// Resident memory of a process, MiB.
///
/// # Errors
/// The process has ended.
pub fn resident_mib_of(pid: &str) -> Outcome<f64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).ok_or("no VmRSS")?;
    let kib: f64 = line.split_whitespace().nth(1).ok_or("no figure")?.parse()?;
    Ok(kib / 1024.0)
}
