package project

import (
	"encoding/json"

	"github.com/pkg/errors"

	"github.com/croft-edge/croft/pkg/workload"
)

// encode writes a filled tree as the type's data, with every member that the
// wire form has.
func (w *Workload) encode(tree any) (json.RawMessage, error) {
	raw, err := json.Marshal(tree)
	if err != nil {
		return nil, errors.Wrapf(err, "cannot write the data of %q", w.Name)
	}
	typed := blank(w.Type)
	if err := json.Unmarshal(raw, typed); err != nil {
		return nil, &Error{File: w.file, Line: w.line, Field: join("workloads", w.Name), Problem: err.Error()}
	}
	out, err := json.Marshal(typed)
	return out, errors.Wrapf(err, "cannot write the data of %q", w.Name)
}

func blank(t workload.Type) any {
	switch t {
	case workload.TypeContainer:
		return &workload.Container{}
	case workload.TypeNetwork:
		return &workload.Network{}
	case workload.TypeZDB:
		return &workload.ZDB{}
	case workload.TypeKubernetes:
		return &workload.Kubernetes{}
	case workload.TypeDebug:
		return &workload.Debug{}
	}
	return &workload.Volume{}
}
