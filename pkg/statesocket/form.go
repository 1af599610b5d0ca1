package statesocket

import (
	"context"
	"slices"

	"github.com/cosi-project/runtime/api/v1alpha1"
	"github.com/cosi-project/runtime/pkg/resource"
	"github.com/cosi-project/runtime/pkg/resource/protobuf"
	"github.com/cosi-project/runtime/pkg/state"
	"github.com/cosi-project/runtime/pkg/state/protobuf/server"
	"github.com/rs/zerolog"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/croft-edge/croft/pkg/stateview"
)

// The header by which a client says in which one form it reads specs, and its values. Without it specs come as YAML and as protobuf.
const (
	specHeader   = "croft-spec"
	specJSON     = "json"
	specProtobuf = "protobuf"
)

// WithJSON asks the node for JSON in the place of YAML, because YAML of hundreds of resources takes longer to make and to
// read than everything else. Calls then need state.WithSkipProtobufUnmarshal: a resource with JSON has no protobuf. A node that
// doesn't know the header, and a spec that stateview.JSON doesn't know give YAML and protobuf.
func WithJSON(ctx context.Context) context.Context {
	return metadata.AppendToOutgoingContext(ctx, specHeader, specJSON)
}

// service is the library's, and gives one form of specs to those who ask for it. Like the library it makes one answer at a time, so
// that a client that reads slowly keeps no list of texts in memory.
type service struct {
	*server.State
	state state.CoreState
	log   zerolog.Logger
}

func newService(st state.CoreState, log zerolog.Logger) service {
	return service{State: server.NewState(st), state: st, log: log}
}

// Get implements v1alpha1.StateServer.
func (s service) Get(ctx context.Context, req *v1alpha1.GetRequest) (*v1alpha1.GetResponse, error) {
	message := formOf(ctx)
	if message == nil {
		return s.State.Get(ctx, req)
	}
	r, err := s.state.Get(ctx, resource.NewMetadata(req.GetNamespace(), req.GetType(), req.GetId(), resource.VersionUndefined))
	if err != nil {
		return nil, statusOf(err)
	}
	m, err := message(r)
	return &v1alpha1.GetResponse{Resource: m}, err
}

// List implements v1alpha1.StateServer.
func (s service) List(req *v1alpha1.ListRequest, out v1alpha1.State_ListServer) error {
	message := formOf(out.Context())
	if message == nil {
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
		m, err := message(r)
		if err != nil {
			return err
		}
		if err := out.Send(&v1alpha1.ListResponse{Resource: m}); err != nil {
			return err
		}
	}
	return nil
}

// Watch implements v1alpha1.StateServer.
func (s service) Watch(req *v1alpha1.WatchRequest, out v1alpha1.State_WatchServer) error {
	message := formOf(out.Context())
	if message == nil {
		return s.State.Watch(req, out)
	}
	return server.NewState(formed{CoreState: s.state, message: message, log: s.log}).Watch(req, out)
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

// formOf makes messages in the form that a client asks for; nil is the library's own.
func formOf(ctx context.Context) func(resource.Resource) (*v1alpha1.Resource, error) {
	asked := metadata.ValueFromIncomingContext(ctx, specHeader)
	switch {
	case slices.Contains(asked, specJSON):
		return withJSON
	case slices.Contains(asked, specProtobuf):
		return withProtobuf
	}
	return nil
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

// withProtobuf is the message of a resource, with its spec as protobuf alone.
func withProtobuf(r resource.Resource) (*v1alpha1.Resource, error) {
	p, err := protobuf.FromResource(r, protobuf.WithoutYAML())
	if err != nil {
		return nil, err
	}
	return p.Marshal()
}
