package example;

import io.grpc.Channel;
import io.grpc.ClientInterceptors;
import io.grpc.Grpc;
import io.grpc.ManagedChannel;
import io.grpc.ManagedChannelBuilder;
import io.grpc.Metadata;
import io.grpc.TlsChannelCredentials;
import io.grpc.netty.shaded.io.grpc.netty.NettyChannelBuilder;
import io.grpc.netty.shaded.io.netty.channel.epoll.EpollDomainSocketChannel;
import io.grpc.netty.shaded.io.netty.channel.epoll.EpollEventLoopGroup;
import io.grpc.netty.shaded.io.netty.channel.unix.DomainSocketAddress;
import io.grpc.stub.MetadataUtils;
import java.io.File;
import java.io.IOException;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;

/** Channels, which are meant to be shared by all calls of a program. They connect at the first call. */
final class Connect {
  private static final String RESOURCES = "hashicorp.consul.resource.ResourceService";

  /**
   * Reads are repeated after both codes, writes only after the refusal of a rate: a write that ended with UNAVAILABLE may have been done.
   * Watches have no rule here; they resume (Watch.java). The health of the service decides which connections get calls.
   */
  private static final Map<String, ?> SERVICE_CONFIG =
      Map.of(
          "loadBalancingConfig", List.of(Map.of("round_robin", Map.of())),
          "healthCheckConfig", Map.of("serviceName", RESOURCES),
          "methodConfig",
              List.of(
                  retried(
                      List.of(method(RESOURCES, "Read"), method(RESOURCES, "List"), method("mortise.v1.QueryService", "Search")),
                      List.of("UNAVAILABLE", "RESOURCE_EXHAUSTED")),
                  retried(List.of(method(RESOURCES, "Write"), method(RESOURCES, "Delete")), List.of("RESOURCE_EXHAUSTED"))));

  private Connect() {}

  /** The port of a server, with TLS. */
  static ManagedChannel to(String address, String caFile) throws IOException {
    return common(Grpc.newChannelBuilder(address, TlsChannelCredentials.newBuilder().trustManager(new File(caFile)).build()));
  }

  /** The unix socket of a server, which knows the users of its machine. Linux only. */
  static ManagedChannel toSocket(String path) {
    return common(
        NettyChannelBuilder.forAddress(new DomainSocketAddress(path))
            .channelType(EpollDomainSocketChannel.class)
            .eventLoopGroup(new EpollEventLoopGroup(1))
            .usePlaintext());
  }

  private static ManagedChannel common(ManagedChannelBuilder<?> builder) {
    return builder
        .defaultServiceConfig(SERVICE_CONFIG)
        // Notices a server that went away without a word.
        .keepAliveTime(30, TimeUnit.SECONDS)
        .keepAliveTimeout(10, TimeUnit.SECONDS)
        // A list may be larger than the 4 MiB that gRPC accepts by default.
        .maxInboundMessageSize(64 << 20)
        .build();
  }

  private static Map<String, ?> method(String service, String method) {
    return Map.of("service", service, "method", method);
  }

  private static Map<String, ?> retried(List<Map<String, ?>> methods, List<String> codes) {
    Map<String, ?> policy =
        Map.of(
            "maxAttempts", 5.0,
            "initialBackoff", "0.2s",
            "maxBackoff", "5s",
            "backoffMultiplier", 2.0,
            "retryableStatusCodes", codes);
    return Map.of("name", methods, "timeout", "30s", "retryPolicy", policy);
  }

  /** A channel whose calls have a token. */
  static Channel withToken(Channel channel, String secret) {
    Metadata headers = new Metadata();
    headers.put(Metadata.Key.of("authorization", Metadata.ASCII_STRING_MARSHALLER), "Bearer " + secret);
    return ClientInterceptors.intercept(channel, MetadataUtils.newAttachHeadersInterceptor(headers));
  }
}
