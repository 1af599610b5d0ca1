package statesocket

import (
	"context"
	"slices"

	"github.com/cosi-project/runtime/api/v1alpha1"
	"github.com/cosi-project/runtime/pkg/resource"
	"github.com/cosi-project/runtime/pkg/resource/protobuf"
	"github.com/cosi-project/runtime/pkg/state"
	"github.com/cosi-project/runtime/pkg/state/protobuf/server"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/croft-edge/croft/pkg/stateview"
)

// The header by which a client asks for JSON, and its value.
const (
	specHeader = "croft-spec"
	specJSON   = "json"
)

// WithJSON asks the node for JSON in the place of YAML, because YAML of hundreds of resources takes longer to make and to
// read than everything else. Get and List then need state.WithSkipProtobufUnmarshal: a resource with JSON has no protobuf. A
// watch, a node that doesn't know the header, and a spec that stateview.JSON doesn't know give YAML and protobuf.
func WithJSON(ctx context.Context) context.Context {
	return metadata.AppendToOutgoingContext(ctx, specHeader, specJSON)
}

// service is the library's, and gives JSON to those who ask for it. Like the library it makes one answer at a time, so that
// a client that reads slowly keeps no list of texts in memory.
type service struct {
	*server.State
	state state.CoreState
}

func newService(st state.CoreState) service { return service{State: server.NewState(st), state: st} }

// Get implements v1alpha1.StateServer.
func (s service) Get(ctx context.Context, req *v1alpha1.GetRequest) (*v1alpha1.GetResponse, error) {
	if !asksForJSON(ctx) {
		return s.State.Get(ctx, req)
	}
	r, err := s.state.Get(ctx, resource.NewMetadata(req.GetNamespace(), req.GetType(), req.GetId(), resource.VersionUndefined))
	if err != nil {
		return nil, statusOf(err)
	}
	m, err := withJSON(r)
	return &v1alpha1.GetResponse{Resource: m}, err
}

// List implements v1alpha1.StateServer.
func (s service) List(req *v1alpha1.ListRequest, out v1alpha1.State_ListServer) error {
	if !asksForJSON(out.Context()) {
		return s.State.List(req, out)
	}
	opts, err := listOptions(req.GetOptions())
	if err != nil {
		return err
	}
	list, err := s.state.List(out.Context(), resource.NewMetadata(req.GetNamespace(), req.GetType(), "", resource.VersionUndefined), opts...)
	if err != nil {
		return statusOf(err)
	}
	for _, r := range list.Items {
		m, err := withJSON(r)
		if err != nil {
			return err
		}
		if err := out.Send(&v1alpha1.ListResponse{Resource: m}); err != nil {
			return err
		}
	}
	return nil
}

// statusOf is the status by which the library's client knows that there is nothing.
func statusOf(err error) error {
	if state.IsNotFoundError(err) {
		return status.Error(codes.NotFound, err.Error())
	}
	return err
}

// listOptions are what selects the resources of a list.
func listOptions(from *v1alpha1.ListOptions) (out []state.ListOption, err error) {
	for _, query := range from.GetLabelQuery() {
		labels, err := server.ConvertLabelQuery(query.GetTerms())
		if err != nil {
			return nil, err
		}
		out = append(out, state.WithLabelQuery(labels...))
	}
	if query := from.GetIdQuery(); query != nil {
		ids, err := server.ConvertIDQuery(query)
		if err != nil {
			return nil, err
		}
		out = append(out, state.WithIDQuery(ids...))
	}
	return out, nil
}

func asksForJSON(ctx context.Context) bool {
	return slices.Contains(metadata.ValueFromIncomingContext(ctx, specHeader), specJSON)
}

// specless is a resource whose spec the library leaves out, as it does with tombstones.
type specless struct{ resource.Resource }

// Tombstone implements resource.Tombstoned.
func (specless) Tombstone() {}

// withJSON is the message of a resource, with its spec as JSON alone, or as the library sends it where JSON can't show it.
func withJSON(r resource.Resource) (*v1alpha1.Resource, error) {
	spec, ok := stateview.JSON(r.Spec())
	if ok {
		r = specless{r}
	}
	p, err := protobuf.FromResource(r)
	if err != nil {
		return nil, err
	}
	m, err := p.Marshal()
	if ok && err == nil {
		m.Spec = &v1alpha1.Spec{YamlSpec: string(spec)}
	}
	return m, err
}
