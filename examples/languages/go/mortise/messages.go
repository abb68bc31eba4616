package mortise

// The messages of the contract, as far as they are needed: mortise/plugin/v1/manifest.proto and hashicorp/consul/resource/resource.proto.

type manifest struct {
	Name        string          `pb:"1"`
	Version     string          `pb:"2"`
	Descriptors []byte          `pb:"3"` // a FileDescriptorSet as it is
	Types       []*resourceType `pb:"4"`
	Controllers []*controller   `pb:"7"`
	Areas       []string        `pb:"1002"`
	Instances   uint32          `pb:"1003"`
}

type resourceType struct {
	Group   string    `pb:"1"`
	Version string    `pb:"2"`
	Kind    string    `pb:"3"`
	Scope   uint32    `pb:"4"`
	Message string    `pb:"5"`
	Hooks   *hooks    `pb:"7"`
	Columns []*column `pb:"9"`
}

type hooks struct {
	Mutate         bool `pb:"1"`
	Validate       bool `pb:"2"`
	AuthorizeWrite bool `pb:"4"`
}

type column struct {
	Name string `pb:"1"`
	Path string `pb:"2"`
}

type controller struct {
	Name     string    `pb:"1"`
	Manages  *typeName `pb:"2"`
	Parallel uint32    `pb:"7"`
}

type typeName struct {
	Group   string `pb:"1"`
	Version string `pb:"2"`
	Kind    string `pb:"3"`
}

type id struct {
	UID     string    `pb:"1"`
	Name    string    `pb:"2"`
	Type    *typeName `pb:"3"`
	Unknown []byte    `pb:"unknown"`
}

type resource struct {
	ID         *id                `pb:"1"`
	Generation string             `pb:"4"`
	Metadata   map[string]string  `pb:"5"`
	Status     map[string]*status `pb:"6"`
	Data       *anyMessage        `pb:"7"`
	Unknown    []byte             `pb:"unknown"`
}

type anyMessage struct {
	TypeURL string `pb:"1"`
	Value   []byte `pb:"2"`
}

type status struct {
	ObservedGeneration string       `pb:"1"`
	Conditions         []*Condition `pb:"2"`
	Unknown            []byte       `pb:"unknown"`
}

// Condition is one observation about a resource.
type Condition struct {
	Type    string `pb:"1"`
	State   uint32 `pb:"2"` // True or False
	Reason  string `pb:"3"`
	Message string `pb:"4"`
}

// States of a condition.
const (
	True  = 1
	False = 2
)

const scopeNamespace = 3

// Instances.INSTANCES_REUSE of the manifest.
const instancesReuse = 1
