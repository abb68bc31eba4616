// Package mortise is the beginning of an SDK: a plugin is declared by values, and its hooks are ordinary functions. The packages
// export_… hand the calls of the host over to it.
package mortise

import (
	"bytes"
	"maps"
	"strings"

	"wit_component/pb"
)

// Plugin is a plugin. Serve makes it the one of this component.
type Plugin struct {
	Name    string
	Version string
	Areas   []string
	// PureHooks: an answer of Mutate or Validate depends on the arguments alone, and not on earlier calls.
	PureHooks   bool
	Types       []Type
	Controllers []Reconciling
}

// Column is a heading, and a path such as `data.model`.
type Column struct{ Name, Path string }

// ResourceType is a type: its name as `group.version.Kind`, its message, its hooks. An absent hook has no effect.
type ResourceType[T any] struct {
	Name           string
	Message        string
	Descriptors    []byte
	Mutate         func(one *Resource[T])
	Validate       func(one, prior *Resource[T], said *Diagnostics)
	AuthorizeWrite func(one *Resource[T]) Decision
	Columns        []Column
}

// Controller is a reconciler of a type.
type Controller[T any] struct {
	Name      string
	Manages   *ResourceType[T]
	Parallel  uint32
	Reconcile func(ctx Context, request Request[T]) error
}

// Type is a ResourceType of any message.
type Type interface {
	name() string
	declare() *resourceType
	descriptors() []byte
	mutate(input []byte) ([]byte, error)
	validate(input, prior []byte) (Diagnostics, error)
	authorizeWrite(input []byte) (Decision, error)
}

// Reconciling is a Controller of any message.
type Reconciling interface {
	name() string
	declare() *controller
	reconcile(ctx Context, id []byte) error
}

var served *Plugin

// Serve makes a plugin the one of this component.
func Serve(plugin *Plugin) { served = plugin }

func named(name string) *typeName {
	parts := strings.SplitN(name, ".", 3)
	return &typeName{Group: parts[0], Version: parts[1], Kind: parts[2]}
}

func (one *ResourceType[T]) name() string        { return one.Name }
func (one *ResourceType[T]) descriptors() []byte { return one.Descriptors }

func (one *ResourceType[T]) declare() *resourceType {
	name := named(one.Name)
	made := &resourceType{
		Group: name.Group, Version: name.Version, Kind: name.Kind, Scope: scopeNamespace, Message: one.Message,
		Hooks: &hooks{Mutate: one.Mutate != nil, Validate: one.Validate != nil, AuthorizeWrite: one.AuthorizeWrite != nil},
	}
	for _, each := range one.Columns {
		made.Columns = append(made.Columns, &column{each.Name, each.Path})
	}
	return made
}

// Returns nil if the hook changes nothing.
func (one *ResourceType[T]) mutate(input []byte) ([]byte, error) {
	found, err := read[T](input)
	if err != nil {
		return nil, err
	}
	data, metadata := pb.Marshal(&found.Data), maps.Clone(found.Metadata())
	one.Mutate(found)
	if bytes.Equal(data, pb.Marshal(&found.Data)) && maps.Equal(metadata, found.Metadata()) {
		return nil, nil
	}
	return found.encode(one.Message), nil
}

func (one *ResourceType[T]) validate(input, prior []byte) (said Diagnostics, err error) {
	found, err := read[T](input)
	if err != nil {
		return said, err
	}
	var stored *Resource[T]
	if prior != nil {
		if stored, err = read[T](prior); err != nil {
			return said, err
		}
	}
	one.Validate(found, stored, &said)
	return said, nil
}

func (one *ResourceType[T]) authorizeWrite(input []byte) (Decision, error) {
	found, err := read[T](input)
	if err != nil {
		return Decision{}, err
	}
	return one.AuthorizeWrite(found), nil
}

func (one *Controller[T]) name() string { return one.Name }

func (one *Controller[T]) declare() *controller {
	return &controller{Name: one.Name, Manages: named(one.Manages.Name), Parallel: one.Parallel}
}

func (one *Controller[T]) reconcile(ctx Context, encoded []byte) error {
	var of id
	if err := pb.Unmarshal(encoded, &of); err != nil {
		return err
	}
	return one.Reconcile(ctx, Request[T]{Name: of.Name, id: encoded})
}
