package mortise

import "wit_component/pb"

// Resource is a resource with its data as a struct, whose fields have tags as in package pb.
type Resource[T any] struct {
	Data T
	rest resource
}

func read[T any](encoded []byte) (*Resource[T], error) {
	one := &Resource[T]{}
	if err := pb.Unmarshal(encoded, &one.rest); err != nil {
		return nil, err
	}
	if one.rest.Data != nil {
		if err := pb.Unmarshal(one.rest.Data.Value, &one.Data); err != nil {
			return nil, err
		}
	}
	return one, nil
}

func (one *Resource[T]) encode(message string) []byte {
	if one.rest.Data == nil {
		one.rest.Data = &anyMessage{TypeURL: "type.googleapis.com/" + message}
	}
	one.rest.Data.Value = pb.Marshal(&one.Data)
	return pb.Marshal(&one.rest)
}

// Name is the resource's name.
func (one *Resource[T]) Name() string { return one.rest.ID.Name }

// Metadata has the resource's free pairs; a mutate hook may change them.
func (one *Resource[T]) Metadata() map[string]string { return one.rest.Metadata }
