// A registry in memory with the API of referrers, by the library of CUE's makers. Prints its address.
package main

import (
	"fmt"
	"log"
	"net"
	"net/http"
	"time"

	"cuelabs.dev/go/oci/ociregistry/ocimem"
	"cuelabs.dev/go/oci/ociregistry/ociserver"
)

func main() {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("listening on %s\n", listener.Addr())
	server := &http.Server{Handler: ociserver.New(ocimem.New(), nil), ReadHeaderTimeout: 10 * time.Second}
	log.Fatal(server.Serve(listener))
}
