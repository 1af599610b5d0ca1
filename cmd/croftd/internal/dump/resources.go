package dump

import (
	"context"

	"github.com/cosi-project/runtime/pkg/resource"
	"github.com/cosi-project/runtime/pkg/resource/meta"
	"github.com/cosi-project/runtime/pkg/state"
	"github.com/pkg/errors"

	"github.com/croft-edge/croft/pkg/stateview"
)

// Resources reads a state. Resources of sensitive types are left out.
type Resources struct{ state state.CoreState }

// NewResources reads from st.
func NewResources(st state.CoreState) *Resources { return &Resources{state: st} }

// read gives all resources, by namespace and type.
func (r *Resources) read(ctx context.Context) (any, error) {
	types, err := stateview.ReadTypes(ctx, r.state)
	if err != nil {
		return nil, err
	}
	return r.of(ctx, types)
}

// errNoType is the cause when nothing may be shown under a name.
var errNoType = errors.New("there is no type of that name")

// named gives the resources of the type of that name or alias.
func (r *Resources) named(ctx context.Context, name string) (any, error) {
	types, err := stateview.ReadTypes(ctx, r.state)
	if err != nil {
		return nil, err
	}
	t, unknown := types.Find(name)
	if unknown != nil || t.Sensitive {
		return nil, errNoType
	}
	return r.of(ctx, stateview.Types{t})
}

// of gives the resources of some types, by namespace and type. Those without any aren't shown.
func (r *Resources) of(ctx context.Context, types stateview.Types) (map[string]map[string][]stateview.Document, error) {
	namespaces, err := r.state.List(ctx, resource.NewMetadata(meta.NamespaceName, meta.NamespaceType, "", resource.VersionUndefined))
	if err != nil {
		return nil, err
	}
	out := map[string]map[string][]stateview.Document{}
	for _, ns := range namespaces.Items {
		name := ns.Metadata().ID()
		for _, t := range types {
			if t.Sensitive {
				continue
			}
			list, err := r.state.List(ctx, resource.NewMetadata(name, t.Name, "", resource.VersionUndefined))
			if err != nil {
				return nil, err
			}
			for _, one := range list.Items {
				d, err := stateview.NewDocument(one)
				if err != nil {
					return nil, err
				}
				if out[name] == nil {
					out[name] = map[string][]stateview.Document{}
				}
				out[name][t.Name] = append(out[name][t.Name], d)
			}
		}
	}
	return out, nil
}
