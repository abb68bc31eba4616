//! The ports before they are served: addresses are reserved at the start of the process, so that a wrong one is found
//! at once, and open when the server is ready. In between clients are refused at once, and try again by themselves.

use std::{io, net::SocketAddr, sync::Arc};

use tokio::net::TcpSocket;

use crate::{
    authority::{Authority, AuthorityFiles},
    dns::{DnsOptions, DnsPorts, DnsSockets},
    http::Allowed,
    port,
    server::{OpenPorts, ServeError, ServerOptions},
    tls::{Tls, TlsFiles},
    transport::LocalConnections,
};

/// Addresses that belong to this process. Connections to them are refused.
pub struct ReservedPorts {
    grpc: TcpSocket,
    http: TcpSocket,
    dns: Option<DnsSockets>,
    tls: Option<Arc<Tls>>,
    authority: Option<Arc<Authority>>,
    options: ServerOptions,
}

/// Reserves the ports, so that a wrong address is found at once. Clients are refused until [`ReservedPorts::open`].
///
/// # Errors
/// [`ServeError::Bind`], [`ServeError::Tls`], [`ServeError::Identity`].
pub async fn bind(options: ServerOptions) -> Result<ReservedPorts, ServeError> {
    let reserve = |addr, setting| port::reserve(addr).map_err(|source| ServeError::Bind { addr, setting, source });
    Ok(ReservedPorts {
        grpc: reserve(options.grpc_addr, "grpc_addr")?,
        http: reserve(options.http_addr, "http_addr")?,
        dns: reserve_dns(options.dns.clone())?,
        tls: match options.tls.clone() {
            Some(tls) => Some(Tls::load(tls).await?),
            None => None,
        },
        authority: match options.identity.clone() {
            Some(identity) => Some(Authority::load(identity).await?),
            None => None,
        },
        options,
    })
}

/// Reserves the DNS port, if it is configured.
fn reserve_dns(options: Option<DnsOptions>) -> Result<Option<DnsSockets>, ServeError> {
    let Some(options) = options else { return Ok(None) };
    let (addr, optional) = (options.addr, options.optional);
    DnsSockets::reserve(options).map(Some).or_else(|source| without_dns(addr, optional, source))
}

async fn open_dns(sockets: DnsSockets) -> Result<Option<DnsPorts>, ServeError> {
    let (addr, optional) = (sockets.options.addr, sockets.options.optional);
    sockets.open().await.map(Some).or_else(|source| without_dns(addr, optional, source))
}

/// Goes on without the DNS port, if the server may.
fn without_dns<T>(addr: SocketAddr, optional: bool, source: io::Error) -> Result<Option<T>, ServeError> {
    if !optional {
        return Err(ServeError::Bind { addr, setting: "dns.addr", source });
    }
    tracing::warn!("no DNS: cannot listen on {addr} (dns.addr): {source}");
    Ok(None)
}

impl ReservedPorts {
    /// Opens the ports. gRPC serves the connections of local users, too.
    ///
    /// # Errors
    /// [`ServeError::Bind`]: another process has opened a port of the same address meanwhile.
    pub async fn open(self, local: Option<LocalConnections>) -> Result<OpenPorts, ServeError> {
        let Self { grpc, http, dns, tls, authority, options } = self;
        let open = |socket: TcpSocket, addr, setting| {
            socket.listen(port::BACKLOG).map_err(|source| ServeError::Bind { addr, setting, source })
        };
        Ok(OpenPorts {
            grpc: open(grpc, options.grpc_addr, "grpc_addr")?,
            http: open(http, options.http_addr, "http_addr")?,
            dns: match dns {
                Some(dns) => open_dns(dns).await?,
                None => None,
            },
            tls,
            authority,
            local,
            options,
        })
    }

    /// The actual addresses of gRPC and HTTP.
    ///
    /// # Errors
    /// The system does not report them.
    pub fn addrs(&self) -> io::Result<(SocketAddr, SocketAddr)> {
        Ok((self.grpc.local_addr()?, self.http.local_addr()?))
    }

    /// The actual address of DNS, if it is served.
    ///
    /// # Errors
    /// The system does not report it.
    pub fn dns_addr(&self) -> io::Result<Option<SocketAddr>> {
        self.dns.as_ref().map(|sockets| sockets.tcp.local_addr()).transpose()
    }

    /// The files of TLS, to be read again at once; `None` without TLS.
    #[must_use]
    pub fn tls_files(&self) -> Option<TlsFiles> {
        self.tls.clone().map(TlsFiles)
    }

    /// The names and origins of the HTTP port, which may change while it is open.
    #[must_use]
    pub fn allowed(&self) -> Allowed {
        self.options.http.allowed.clone()
    }

    /// The files of the authority for identities, to be read again at once; `None` without one.
    #[must_use]
    pub fn authority_files(&self) -> Option<AuthorityFiles> {
        self.authority.clone().map(AuthorityFiles)
    }
}
