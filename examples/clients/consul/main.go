// Follows the service "web" with Consul's own client, and prints each state of it: docs/consul.md. Ends when the service has no instances
// any more. The address and the token are in CONSUL_HTTP_ADDR and CONSUL_HTTP_TOKEN_FILE.
package main

import (
	"errors"
	"fmt"
	"log"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/consul/api"
)

func main() {
	log.SetFlags(0)
	client, err := api.NewClient(api.DefaultConfig())
	if err != nil {
		log.Fatal(err)
	}
	describe(client)
	follow(client)
}

// Prints facts about the server, and its answer to a registration.
func describe(client *api.Client) {
	leader, err := client.Status().Leader()
	check(err)
	datacenters, err := client.Catalog().Datacenters()
	check(err)
	self, err := client.Agent().Self()
	check(err)
	fmt.Printf("leader: %t, datacenters: %v, own: %v\n", leader != "", datacenters, self["Config"]["Datacenter"])
	services, _, err := client.Catalog().Services(nil)
	check(err)
	fmt.Printf("services: %v\n", services)
	var refused api.StatusError
	if err := client.Agent().ServiceRegister(&api.AgentServiceRegistration{Name: "web"}); errors.As(err, &refused) {
		fmt.Printf("registration: %d, names the workload: %t\n", refused.Code, strings.Contains(refused.Body, "catalog.v1.Workload"))
	}
	_, _, err = client.Health().Service("web", "", false, &api.QueryOptions{Filter: "Service.Nam == x"})
	if errors.As(err, &refused) {
		fmt.Printf("filter: %d\n", refused.Code)
	}
}

func follow(client *api.Client) {
	var index uint64
	var seen bool
	for {
		// A minute is longer than the steps of the test: each answer is a change.
		entries, meta, err := client.Health().Service("web", "", false, &api.QueryOptions{WaitIndex: index, WaitTime: time.Minute})
		check(err)
		if meta.LastIndex == index {
			log.Fatal("a query ended without a change")
		}
		index = meta.LastIndex
		tagged, _, err := client.Health().ServiceMultipleTags("web", []string{"v1", "eu"}, true, nil)
		check(err)
		fmt.Printf("web: [%s], passing: %d\n", strings.Join(lines(entries), ", "), len(tagged))
		if seen && len(entries) == 0 {
			return
		}
		seen = seen || len(entries) > 0
	}
}

// An instance on a line: its id, address, state, and the texts of its checks.
func lines(entries []*api.ServiceEntry) []string {
	var found []string
	for _, entry := range entries {
		line := fmt.Sprintf("%s %s:%d %s", entry.Service.ID, entry.Service.Address, entry.Service.Port, entry.Checks.AggregatedStatus())
		for _, check := range entry.Checks {
			line += fmt.Sprintf(" %s=%q", check.Name, check.Output)
		}
		found = append(found, line)
	}
	slices.Sort(found)
	return found
}

func check(err error) {
	var status api.StatusError
	if errors.As(err, &status) && status.Code == http.StatusNotFound {
		log.Fatalf("the path is missing: %v", err)
	}
	if err != nil {
		log.Fatal(err)
	}
}
