package stateview

import (
	"bytes"
	"encoding/json"
	"time"

	"github.com/cosi-project/runtime/pkg/resource"
	"github.com/cosi-project/runtime/pkg/resource/protobuf"
	"github.com/pkg/errors"

	"github.com/croft-edge/croft/pkg/yamljson"
)

// Document is a resource as people and programs see it. The spec has the names of its YAML.
type Document struct {
	Metadata Metadata        `json:"metadata"`
	Spec     json.RawMessage `json:"spec"`
}

// Metadata is a resource's.
type Metadata struct {
	Namespace   string            `json:"namespace"`
	Type        string            `json:"type"`
	ID          string            `json:"id"`
	Version     string            `json:"version"`
	Owner       string            `json:"owner"`
	Phase       string            `json:"phase"`
	Created     time.Time         `json:"created"`
	Updated     time.Time         `json:"updated"`
	Labels      map[string]string `json:"labels,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
	Finalizers  []string          `json:"finalizers,omitempty"`
}

// NewDocument makes the document of a resource, of a registered type or not.
func NewDocument(r resource.Resource) (Document, error) {
	md := r.Metadata()
	spec, err := specOf(r)
	if err != nil {
		return Document{}, errors.Wrapf(err, "cannot show %s %s", md.Type(), md.ID())
	}
	return Document{
		Metadata: Metadata{
			Namespace: md.Namespace(), Type: md.Type(), ID: md.ID(), Version: md.Version().String(), Owner: md.Owner(), Phase: md.Phase().String(),
			Created: md.Created().UTC(), Updated: md.Updated().UTC(),
			Labels: md.Labels().Raw(), Annotations: md.Annotations().Raw(), Finalizers: *md.Finalizers(),
		},
		Spec: spec,
	}, nil
}

// specOf is the JSON of a resource's spec. One of a node has it as YAML, or as JSON where this program has asked for that.
func specOf(r resource.Resource) (json.RawMessage, error) {
	if !resource.IsTombstone(r) {
		if spec, ok := JSON(r.Spec()); ok {
			return spec, nil
		}
	}
	p, err := protobuf.FromResource(r)
	if err != nil {
		return nil, err
	}
	m, err := p.Marshal()
	if err != nil {
		return nil, err
	}
	text := []byte(m.GetSpec().GetYamlSpec())
	if yamljson.Plain(text) {
		return text, nil
	}
	return yamljson.ToJSON(text)
}

// Values is the spec as json.Unmarshal reads it, with numbers as they are written.
func (d Document) Values() any {
	decoder := json.NewDecoder(bytes.NewReader(d.Spec))
	decoder.UseNumber()
	var v any
	if err := decoder.Decode(&v); err != nil {
		return nil
	}
	return v
}

// Condition is one of a spec's list conditions.
type Condition struct {
	Type    string `json:"type"`
	Status  string `json:"status"`
	Reason  string `json:"reason"`
	Message string `json:"message"`
}

// Conditions are those of the spec; a spec without such a list has none.
func (d Document) Conditions() []Condition {
	var spec struct {
		Conditions []Condition `json:"conditions"`
	}
	if err := json.Unmarshal(d.Spec, &spec); err != nil {
		return nil
	}
	return spec.Conditions
}
