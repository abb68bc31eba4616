// The generated code (buf.gen.yaml). It has the versions of the module around it.
module mortise.local/proto

go 1.26

require (
	google.golang.org/grpc v1.85.0
	google.golang.org/protobuf v1.36.12
)
