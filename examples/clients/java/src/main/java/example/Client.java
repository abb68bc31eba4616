package example;

import com.google.protobuf.Any;
import com.google.protobuf.InvalidProtocolBufferException;
import com.google.rpc.BadRequest;
import hashicorp.consul.internal.demo.v2.Artist;
import hashicorp.consul.resource.DeleteRequest;
import hashicorp.consul.resource.ID;
import hashicorp.consul.resource.ReadRequest;
import hashicorp.consul.resource.Resource;
import hashicorp.consul.resource.ResourceServiceGrpc;
import hashicorp.consul.resource.Tenancy;
import hashicorp.consul.resource.Type;
import hashicorp.consul.resource.WriteRequest;
import io.grpc.Channel;
import io.grpc.Status.Code;
import io.grpc.StatusRuntimeException;
import io.grpc.protobuf.StatusProto;
import java.util.function.UnaryOperator;

/** The calls of this example, for one namespace. */
final class Client {
  static final Type ARTIST = Type.newBuilder().setGroup("demo").setGroupVersion("v2").setKind("Artist").build();

  final Channel channel;
  final ResourceServiceGrpc.ResourceServiceBlockingStub resources;
  final Tenancy tenancy;

  Client(Channel channel, String namespace) {
    this.channel = channel;
    resources = ResourceServiceGrpc.newBlockingStub(channel);
    tenancy = Tenancy.newBuilder().setPartition("default").setNamespace(namespace).build();
  }

  ID id(String name) {
    return ID.newBuilder().setType(ARTIST).setName(name).setTenancy(tenancy).build();
  }

  Resource read(String name) {
    return resources.read(ReadRequest.newBuilder().setId(id(name)).build()).getResource();
  }

  /** Creates or replaces; with a version in the resource, it replaces only that version. */
  Resource write(Resource resource) {
    return resources.write(WriteRequest.newBuilder().setResource(resource).build()).getResource();
  }

  void delete(ID id) {
    resources.delete(DeleteRequest.newBuilder().setId(id).build());
  }

  Resource artist(String name, String title) {
    return Resource.newBuilder().setId(id(name)).setData(Any.pack(Artist.newBuilder().setName(title).build())).build();
  }

  /** Changes a resource in spite of other writers: when one was faster, it reads again. The change may run several times. */
  Resource update(String name, UnaryOperator<Resource> change) {
    while (true) {
      try {
        return write(change.apply(read(name)));
      } catch (StatusRuntimeException error) {
        if (error.getStatus().getCode() != Code.ABORTED) {
          throw error;
        }
      }
    }
  }

  static Artist artistOf(Resource resource) {
    try {
      return resource.getData().unpack(Artist.class);
    } catch (InvalidProtocolBufferException error) {
      throw new IllegalStateException(error);
    }
  }

  /** The code with which a call ends, and the fields that an INVALID_ARGUMENT is about. */
  static String codeOf(Runnable call) {
    try {
      call.run();
      return "OK";
    } catch (StatusRuntimeException error) {
      StringBuilder words = new StringBuilder(error.getStatus().getCode().name());
      for (Any detail : StatusProto.fromThrowable(error).getDetailsList()) {
        try {
          if (detail.is(BadRequest.class)) {
            detail.unpack(BadRequest.class).getFieldViolationsList().forEach(fault -> words.append(' ').append(fault.getField()));
          }
        } catch (InvalidProtocolBufferException malformed) {
          throw new IllegalStateException(malformed);
        }
      }
      return words.toString();
    }
  }
}
