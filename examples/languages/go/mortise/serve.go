package mortise

import (
	"wit_component/mortise_plugin_authorizer"
	types "wit_component/mortise_plugin_types"
	"wit_component/pb"
)

// Decision is the answer of a rule. A refusal without a reason has the host name the permission.
type Decision struct {
	Allow  bool
	Reason string
}

// Require allows the call if the caller has the permission.
func Require(permission, name string) Decision {
	return Decision{Allow: mortise_plugin_authorizer.Allowed(permission, name)}
}

// Describe is the manifest of the plugin.
func Describe() []byte {
	made := &manifest{Name: served.Name, Version: served.Version, Areas: served.Areas}
	if served.PureHooks {
		made.Instances = instancesReuse
	}
	for _, one := range served.Types {
		made.Types = append(made.Types, one.declare())
		// Sets of descriptors may simply be put one after the other.
		made.Descriptors = append(made.Descriptors, one.descriptors()...)
	}
	for _, one := range served.Controllers {
		made.Controllers = append(made.Controllers, one.declare())
	}
	return pb.Marshal(made)
}

// The declared type of a resource.
func typeOf(encoded []byte) Type {
	if len(served.Types) == 1 {
		return served.Types[0]
	}
	var found resource
	if err := pb.Unmarshal(encoded, &found); err == nil {
		for _, one := range served.Types {
			if *named(one.name()) == *found.ID.Type {
				return one
			}
		}
	}
	panic("a resource of a type that is not declared")
}

func refusal(err error) []types.Diagnostic {
	var said Diagnostics
	said.Error(err.Error())
	return said.said
}

// Mutate returns the changed resource, or nil; or diagnostics that refuse the request.
func Mutate(input []byte) ([]byte, []types.Diagnostic) {
	changed, err := typeOf(input).mutate(input)
	if err != nil {
		return nil, refusal(err)
	}
	return changed, nil
}

// Validate judges a resource.
func Validate(input, prior []byte) []types.Diagnostic {
	said, err := typeOf(input).validate(input, prior)
	if err != nil {
		return refusal(err)
	}
	return said.said
}

// AuthorizeWrite decides about a write.
func AuthorizeWrite(input []byte) Decision {
	decision, err := typeOf(input).authorizeWrite(input)
	if err != nil {
		return Decision{Reason: err.Error()}
	}
	return decision
}

// Reconcile runs a controller.
func Reconcile(name string, id []byte) error {
	for _, one := range served.Controllers {
		if one.name() == name {
			return one.reconcile(Context{plugin: served.Name}, id)
		}
	}
	panic("a controller that is not declared: " + name)
}
