package example;

import com.google.common.util.concurrent.ListenableFuture;
import hashicorp.consul.resource.ReadRequest;
import hashicorp.consul.resource.ReadResponse;
import hashicorp.consul.resource.Resource;
import hashicorp.consul.resource.ResourceServiceGrpc;
import io.grpc.Channel;
import io.grpc.ManagedChannel;
import io.grpc.Status;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import mortise.v1.AuthServiceGrpc;
import mortise.v1.WatchServiceGrpc;
import mortise.v1.WhoAmIRequest;
import mortise.v1.WhoAmIResponse;

/** A client of Mortise in Java: docs/clients.md explains what it does, and README.md how to run it. */
final class Main {
  private Main() {}

  public static void main(String[] args) throws Exception {
    String namespace = System.getenv("MORTISE_NAMESPACE");
    String secret = Files.readString(Path.of(System.getenv("MORTISE_TOKEN_FILE"))).strip();
    ManagedChannel connection = Connect.to(System.getenv("MORTISE_GRPC_ADDR"), System.getenv("MORTISE_CA_FILE"));
    Channel channel = Connect.withToken(connection, secret);
    Client client = new Client(channel, namespace);

    System.out.println("I am " + who(channel).getAccessorId());

    Resource korn = client.write(client.artist("korn", "Korn"));
    System.out.println("wrote korn: " + Client.artistOf(korn).getGenre());
    System.out.println("read korn: " + Client.artistOf(client.read("korn")).getName());

    // A version is of one state of the resource, a uid of one life.
    client.write(client.artist("korn", "Korn"));
    System.out.println("stale version: " + Client.codeOf(() -> client.write(korn)));
    Resource brief = client.write(client.artist("brief", "Brief"));
    client.delete(brief.getId());
    client.write(client.artist("brief", "Brief"));
    System.out.println("old uid: " + Client.codeOf(() -> client.write(brief.toBuilder().clearVersion().build())));
    client.delete(client.id("brief"));

    System.out.println("missing: " + Client.codeOf(() -> client.read("missing")));
    System.out.println("invalid: " + Client.codeOf(() -> client.write(client.artist("invalid", ""))));
    System.out.println("other namespace: " + Client.codeOf(() -> new Client(channel, "default").read("korn")));
    System.out.println("no token: " + Client.codeOf(() -> new Client(connection, namespace).read("korn")));
    Client wrong = new Client(Connect.withToken(connection, "wrong"), namespace);
    System.out.println("wrong token: " + Client.codeOf(() -> wrong.read("korn")));

    // A deadline ends a call, a watch too.
    var soon = WatchServiceGrpc.newBlockingStub(channel).withDeadlineAfter(300, TimeUnit.MILLISECONDS);
    System.out.println(
        "deadline: " + Client.codeOf(() -> soon.watchResources(Watch.everything(client, "")).forEachRemaining(message -> {})));

    ExecutorService threads = Executors.newFixedThreadPool(2);
    List<Future<?>> writers = new ArrayList<>();
    for (int writer = 0; writer < 2; writer++) {
      writers.add(
          threads.submit(
              () -> {
                for (int n = 0; n < 5; n++) {
                  client.update("korn", Main::count);
                }
              }));
    }
    for (Future<?> writer : writers) {
      writer.get();
    }
    threads.shutdown();
    System.out.println("counted: " + client.read("korn").getMetadataOrThrow("count"));

    // The first failure of a group cancels its other calls; the channel stays.
    LinkedBlockingQueue<ListenableFuture<ReadResponse>> ended = new LinkedBlockingQueue<>();
    List<ListenableFuture<ReadResponse>> group = new ArrayList<>();
    for (int n = 0; n < 10; n++) {
      ReadRequest request = ReadRequest.newBuilder().setId(client.id(n < 9 ? "korn" : "missing")).build();
      ListenableFuture<ReadResponse> call = ResourceServiceGrpc.newFutureStub(channel).read(request);
      call.addListener(() -> ended.add(call), Runnable::run);
      group.add(call);
    }
    String failure = "OK";
    while (failure.equals("OK")) {
      try {
        ended.take().get();
      } catch (ExecutionException error) {
        failure = Status.fromThrowable(error).getCode().name();
      }
    }
    group.forEach(call -> call.cancel(true));
    System.out.println("group: " + failure + " " + Client.artistOf(client.read("korn")).getName());

    // More reads than a caller has: the channel waits and repeats.
    int answered = 0;
    for (; answered < 120; answered++) {
      client.read("korn");
    }
    System.out.println("reads: " + answered);

    Watch watch = new Watch(client, connection);
    watch.run(
        names -> {
          System.out.println("watch: " + names);
          return !List.of(names.split(" ")).contains("stop");
        });
    System.out.printf("resumed %d, reset %d%n", watch.resumed, watch.reset);

    String socket = System.getenv("MORTISE_SOCKET");
    if (socket != null) {
      System.out.println("socket: " + String.join(" ", who(Connect.toSocket(socket)).getPoliciesList()));
    }
    client.delete(client.id("korn"));
    System.out.println("done");
    System.exit(0);
  }

  private static WhoAmIResponse who(Channel channel) {
    return AuthServiceGrpc.newBlockingStub(channel)
        .withDeadlineAfter(10, TimeUnit.SECONDS)
        .whoAmI(WhoAmIRequest.getDefaultInstance());
  }

  private static Resource count(Resource resource) {
    int counted = Integer.parseInt(resource.getMetadataOrDefault("count", "0"));
    return resource.toBuilder().putMetadata("count", Integer.toString(counted + 1)).build();
  }
}
