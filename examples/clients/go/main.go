// A client of Mortise in Go: docs/clients.md explains what it does, and README.md how to run it.
package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	_ "google.golang.org/grpc/health" // makes healthCheckConfig work
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/anypb"

	demo "mortise.local/proto/demo/v2"
	mortise "mortise.local/proto/mortise/v1"
	resource "mortise.local/proto/pbresource"
)

// Reads are repeated after both codes, writes only after the refusal of a rate: a write that ended with UNAVAILABLE may have been done.
// Watches have no rule here; they resume (watch.go). The health of the service decides which connections get calls.
const serviceConfig = `{
  "loadBalancingConfig": [{"round_robin": {}}],
  "healthCheckConfig": {"serviceName": "hashicorp.consul.resource.ResourceService"},
  "methodConfig": [{
    "name": [{"service": "hashicorp.consul.resource.ResourceService", "method": "Read"},
             {"service": "hashicorp.consul.resource.ResourceService", "method": "List"},
             {"service": "mortise.v1.QueryService", "method": "Search"}],
    "timeout": "30s",
    "retryPolicy": {"maxAttempts": 5, "initialBackoff": "0.2s", "maxBackoff": "5s", "backoffMultiplier": 2,
                    "retryableStatusCodes": ["UNAVAILABLE", "RESOURCE_EXHAUSTED"]}
  }, {
    "name": [{"service": "hashicorp.consul.resource.ResourceService", "method": "Write"},
             {"service": "hashicorp.consul.resource.ResourceService", "method": "Delete"}],
    "timeout": "30s",
    "retryPolicy": {"maxAttempts": 5, "initialBackoff": "0.2s", "maxBackoff": "5s", "backoffMultiplier": 2,
                    "retryableStatusCodes": ["RESOURCE_EXHAUSTED"]}
  }]
}`

var artistType = &resource.Type{Group: "demo", GroupVersion: "v2", Kind: "Artist"}

// Token is sent with every call, and never without TLS.
type token string

func (t token) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	return map[string]string{"authorization": "Bearer " + string(t)}, nil
}

func (token) RequireTransportSecurity() bool { return true }

// Connect makes a channel, which is meant to be shared by all calls of a program. It connects at the first call.
func connect(address, secret string) *grpc.ClientConn {
	options := []grpc.DialOption{
		grpc.WithDefaultServiceConfig(serviceConfig),
		// A restart takes seconds: do not wait for two minutes between two attempts.
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: backoff.Config{BaseDelay: 200 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: 5 * time.Second}, MinConnectTimeout: 5 * time.Second}),
		// Notices a server that went away without a word.
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 30 * time.Second, Timeout: 10 * time.Second}),
		// A list may be larger than the 4 MiB that gRPC accepts by default.
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(64 << 20)),
	}
	if strings.HasPrefix(address, "unix:") {
		// The server knows the users of its machine.
		options = append(options, grpc.WithTransportCredentials(insecure.NewCredentials()))
	} else {
		authorities := x509.NewCertPool()
		authorities.AppendCertsFromPEM(must(os.ReadFile(os.Getenv("MORTISE_CA_FILE"))))
		options = append(options, grpc.WithTransportCredentials(credentials.NewTLS(&tls.Config{RootCAs: authorities})))
	}
	if secret != "" {
		options = append(options, grpc.WithPerRPCCredentials(token(secret)))
	}
	return must(grpc.NewClient(address, options...))
}

// Client has the calls of this example, for one namespace.
type client struct {
	resources resource.ResourceServiceClient
	watches   mortise.WatchServiceClient
	auth      mortise.AuthServiceClient
	namespace string
}

func newClient(channel *grpc.ClientConn, namespace string) *client {
	return &client{resource.NewResourceServiceClient(channel), mortise.NewWatchServiceClient(channel), mortise.NewAuthServiceClient(channel), namespace}
}

func (c *client) id(name string) *resource.ID {
	return &resource.ID{Type: artistType, Name: name, Tenancy: &resource.Tenancy{Partition: "default", Namespace: c.namespace}}
}

func (c *client) read(ctx context.Context, name string) (*resource.Resource, error) {
	answer, err := c.resources.Read(ctx, &resource.ReadRequest{Id: c.id(name)})
	return answer.GetResource(), err
}

// Write creates or replaces; with a version in the resource, it replaces only that version.
func (c *client) write(ctx context.Context, written *resource.Resource) (*resource.Resource, error) {
	answer, err := c.resources.Write(ctx, &resource.WriteRequest{Resource: written})
	return answer.GetResource(), err
}

func (c *client) artist(name, title string) *resource.Resource {
	return &resource.Resource{Id: c.id(name), Data: must(anypb.New(&demo.Artist{Name: title}))}
}

// Update changes a resource in spite of other writers: when one was faster, it reads again. Change may run several times.
func (c *client) update(ctx context.Context, name string, change func(*resource.Resource)) error {
	for {
		current, err := c.read(ctx, name)
		if err != nil {
			return err
		}
		change(current)
		if _, err = c.write(ctx, current); status.Code(err) != codes.Aborted {
			return err
		}
	}
}

func artistOf(read *resource.Resource) *demo.Artist {
	artist := &demo.Artist{}
	check(read.GetData().UnmarshalTo(artist))
	return artist
}

// Faults lists the fields that an InvalidArgument is about.
func faults(err error) string {
	var paths []string
	for _, detail := range status.Convert(err).Details() {
		if request, ok := detail.(*errdetails.BadRequest); ok {
			for _, violation := range request.GetFieldViolations() {
				paths = append(paths, violation.GetField())
			}
		}
	}
	return strings.Join(paths, " ")
}

func main() {
	ctx := context.Background()
	namespace := os.Getenv("MORTISE_NAMESPACE")
	address := os.Getenv("MORTISE_GRPC_ADDR")
	secret := strings.TrimSpace(string(must(os.ReadFile(os.Getenv("MORTISE_TOKEN_FILE")))))
	c := newClient(connect(address, secret), namespace)

	fmt.Println("I am", must(c.auth.WhoAmI(ctx, &mortise.WhoAmIRequest{})).GetAccessorId())

	korn := must(c.write(ctx, c.artist("korn", "Korn")))
	fmt.Println("wrote korn:", artistOf(korn).GetGenre())
	fmt.Println("read korn:", artistOf(must(c.read(ctx, "korn"))).GetName())

	// A version is of one state of the resource, a uid of one life.
	must(c.write(ctx, c.artist("korn", "Korn")))
	_, err := c.write(ctx, korn)
	fmt.Println("stale version:", status.Code(err))
	brief := must(c.write(ctx, c.artist("brief", "Brief")))
	must(c.resources.Delete(ctx, &resource.DeleteRequest{Id: brief.GetId()}))
	must(c.write(ctx, c.artist("brief", "Brief")))
	brief.Version = ""
	_, err = c.write(ctx, brief)
	fmt.Println("old uid:", status.Code(err))
	must(c.resources.Delete(ctx, &resource.DeleteRequest{Id: c.id("brief")}))

	_, err = c.read(ctx, "missing")
	fmt.Println("missing:", status.Code(err))
	_, err = c.write(ctx, c.artist("invalid", ""))
	fmt.Println("invalid:", status.Code(err), faults(err))
	_, err = newClient(connect(address, secret), "default").read(ctx, "korn")
	fmt.Println("other namespace:", status.Code(err))
	_, err = newClient(connect(address, ""), namespace).read(ctx, "korn")
	fmt.Println("no token:", status.Code(err))
	_, err = newClient(connect(address, "wrong"), namespace).read(ctx, "korn")
	fmt.Println("wrong token:", status.Code(err))

	// A deadline ends a call, a watch too.
	soon, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
	stream, err := c.watches.WatchResources(soon, c.everything(""))
	for err == nil {
		_, err = stream.Recv()
	}
	cancel()
	fmt.Println("deadline:", status.Code(err))

	count := func(written *resource.Resource) {
		counted, _ := strconv.Atoi(written.GetMetadata()["count"])
		if written.Metadata == nil {
			written.Metadata = map[string]string{}
		}
		written.Metadata["count"] = strconv.Itoa(counted + 1)
	}
	var writers errgroup.Group
	for range 2 {
		writers.Go(func() (err error) {
			for n := 0; n < 5 && err == nil; n++ {
				err = c.update(ctx, "korn", count)
			}
			return err
		})
	}
	check(writers.Wait())
	fmt.Println("counted:", must(c.read(ctx, "korn")).GetMetadata()["count"])

	// The first failure of a group cancels its other calls; the channel stays.
	group, together := errgroup.WithContext(ctx)
	for n := range 10 {
		group.Go(func() error {
			_, err := c.read(together, []string{"korn", "missing"}[n/9])
			if errors.Is(together.Err(), context.Canceled) {
				return nil
			}
			return err
		})
	}
	err = group.Wait()
	fmt.Println("group:", status.Code(err), artistOf(must(c.read(ctx, "korn"))).GetName())

	// More reads than a caller has: the channel waits and repeats.
	answered := 0
	for range 120 {
		must(c.read(ctx, "korn"))
		answered++
	}
	fmt.Println("reads:", answered)

	resumed, reset := c.watch(ctx, func(names []string) bool {
		fmt.Println("watch:", strings.Join(names, " "))
		return !slices.Contains(names, "stop")
	})
	fmt.Printf("resumed %d, reset %d\n", resumed, reset)

	if socket := os.Getenv("MORTISE_SOCKET"); socket != "" {
		local := must(newClient(connect("unix:"+socket, ""), namespace).auth.WhoAmI(ctx, &mortise.WhoAmIRequest{}))
		fmt.Println("socket:", strings.Join(local.GetPolicies(), " "))
	}
	must(c.resources.Delete(ctx, &resource.DeleteRequest{Id: c.id("korn")}))
	fmt.Println("done")
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func must[T any](value T, err error) T {
	check(err)
	return value
}
