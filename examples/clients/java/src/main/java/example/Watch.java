package example;

import goten.types.WatchType;
import hashicorp.consul.resource.Resource;
import io.grpc.Context;
import io.grpc.ManagedChannel;
import io.grpc.Status.Code;
import io.grpc.StatusRuntimeException;
import java.util.EnumSet;
import java.util.Iterator;
import java.util.Set;
import java.util.TreeMap;
import java.util.function.Predicate;
import mortise.v1.ResourceChange;
import mortise.v1.WatchResourcesRequest;
import mortise.v1.WatchResourcesResponse;
import mortise.v1.WatchServiceGrpc;

/** Keeps the artists of a namespace, in spite of cuts and restarts. */
final class Watch {
  /** Ends of a watch after which another attempt makes sense. */
  private static final Set<Code> PASSING =
      EnumSet.of(Code.UNAVAILABLE, Code.ABORTED, Code.RESOURCE_EXHAUSTED, Code.INTERNAL, Code.UNKNOWN);

  private final Client client;
  private final ManagedChannel connection;
  private TreeMap<String, Resource> known = new TreeMap<>();
  private String token = "";
  private String shown;
  private long waitMillis = 100;

  /** How often it resumed, and how often it had to begin from a snapshot. */
  int resumed;

  int reset;

  Watch(Client client, ManagedChannel connection) {
    this.client = client;
    this.connection = connection;
  }

  /** All artists of the namespace: from the token on, or with a snapshot. */
  static WatchResourcesRequest everything(Client client, String resumeToken) {
    return WatchResourcesRequest.newBuilder()
        .setType(WatchType.STATELESS)
        .setResourceType(Client.ARTIST)
        .setTenancy(client.tenancy)
        .setResumeToken(resumeToken)
        .build();
  }

  /** Calls `show` with the sorted names when they have changed, until it returns false. */
  void run(Predicate<String> show) throws InterruptedException {
    while (true) {
      Context.CancellableContext context = Context.current().withCancellation();
      try {
        if (context.call(() -> follow(show))) {
          return;
        }
      } catch (StatusRuntimeException error) {
        if (!PASSING.contains(error.getStatus().getCode())) {
          // Another attempt would end the same: the token is unknown, a permission is missing, the request is wrong.
          throw error;
        }
      } catch (Exception error) {
        throw new IllegalStateException(error);
      } finally {
        context.cancel(null);
      }
      Thread.sleep(waitMillis);
      waitMillis = Math.min(2 * waitMillis, 5_000);
      // A restart takes seconds: do not wait for two minutes between two attempts.
      connection.resetConnectBackoff();
    }
  }

  /** Follows one stream, and returns whether `show` has enough. */
  private boolean follow(Predicate<String> show) {
    boolean first = !token.isEmpty();
    TreeMap<String, Resource> pending = first ? new TreeMap<>(known) : new TreeMap<>();
    Iterator<WatchResourcesResponse> stream =
        WatchServiceGrpc.newBlockingStub(client.channel).withWaitForReady().watchResources(everything(client, token));
    while (stream.hasNext()) {
      WatchResourcesResponse message = stream.next();
      waitMillis = 100;
      if (message.getIsHardReset()) {
        reset += first ? 1 : 0;
        token = "";
        pending.clear();
      } else if (message.getIsSoftReset()) {
        pending = new TreeMap<>(known);
      } else {
        resumed += first ? 1 : 0;
      }
      first = false;
      for (ResourceChange change : message.getChangesList()) {
        if (change.hasCurrent()) {
          Resource resource = change.getCurrent().getResource();
          pending.put(resource.getId().getName(), resource);
        } else {
          pending.remove(change.getRemoved().getName().getName());
        }
      }
      if (!message.getIsCurrent()) {
        continue;
      }
      // The changes up to here belong together, and the token is behind them.
      known = new TreeMap<>(pending);
      token = message.getResumeToken();
      String names = String.join(" ", known.keySet());
      if (!names.equals(shown)) {
        shown = names;
        if (!show.test(names)) {
          return true;
        }
      }
    }
    return false;
  }
}
