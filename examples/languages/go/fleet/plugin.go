// Package fleet is the type `fleet_go.v1.Device`: defaults, rules, permissions and a reconciler.
package fleet

import (
	_ "embed"

	"wit_component/mortise"
)

// Device is the message fleet.v1.Device of ../proto.
type Device struct {
	Model     string   `pb:"1"`
	Addresses []string `pb:"2"`
	Interval  uint32   `pb:"3"`
	Unknown   []byte   `pb:"unknown"`
}

//go:embed device.binpb
var descriptors []byte

var device = &mortise.ResourceType[Device]{
	Name:           "fleet_go.v1.Device",
	Message:        "fleet.v1.Device",
	Descriptors:    descriptors,
	Mutate:         fillIn,
	Validate:       judge,
	AuthorizeWrite: mayWrite,
	Columns:        []mortise.Column{{Name: "MODEL", Path: "data.model"}, {Name: "INTERVAL", Path: "data.interval"}},
}

func init() {
	mortise.Serve(&mortise.Plugin{
		Name:        "fleet-go",
		Version:     version,
		Areas:       []string{"device"},
		PureHooks:   true,
		Types:       []mortise.Type{device},
		Controllers: []mortise.Reconciling{&mortise.Controller[Device]{Name: "poll", Manages: device, Parallel: 16, Reconcile: poll}},
	})
}
