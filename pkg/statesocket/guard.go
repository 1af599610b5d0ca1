package statesocket

import (
	"context"
	"regexp"
	"strings"
	"sync"

	"github.com/cosi-project/runtime/pkg/resource"
	"github.com/cosi-project/runtime/pkg/resource/meta"
	"github.com/cosi-project/runtime/pkg/resource/protobuf"
	"github.com/cosi-project/runtime/pkg/state"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// The namespace and the type of what clients may write.
const (
	OrdersNamespace resource.Namespace = "orders"
	OrdersType      resource.Type      = "Orders.croft"
)

// OrdersOnly is the state as clients see it: they read and watch what is in the registry, and create,
// tear down and destroy orders. Its errors are gRPC statuses.
func OrdersOnly(core state.CoreState, limits Limits) state.CoreState {
	r := rules{core: core}
	return state.Filter(&orders{CoreState: core, limits: limits}, r.check)
}

// rules say which types clients may read and write.
type rules struct{ core state.CoreState }

func (r rules) check(ctx context.Context, a state.Access) error {
	if !a.Verb.Readonly() {
		if a.ResourceNamespace == OrdersNamespace && a.ResourceType == OrdersType {
			return nil
		}
		return status.Errorf(codes.PermissionDenied, "cannot change %q of type %q in namespace %q: clients may read it only; they write %s in namespace %s",
			a.ResourceID, a.ResourceType, a.ResourceNamespace, OrdersType, OrdersNamespace)
	}
	// The library makes a collection for each name that anybody reads, and keeps it: only known names get through.
	if err := r.known(ctx, meta.NamespaceType, a.ResourceNamespace); err != nil {
		return unknown(err, "namespace", a.ResourceNamespace)
	}
	of, err := r.core.Get(ctx, resource.NewMetadata(meta.NamespaceName, meta.ResourceDefinitionType, strings.ToLower(a.ResourceType), resource.VersionUndefined))
	if defined, ok := of.(*meta.ResourceDefinition); err == nil && (!ok || defined.TypedSpec().Type != a.ResourceType) {
		return status.Errorf(codes.NotFound, "cannot read type %q: this node has none of that name", a.ResourceType)
	}
	return unknown(err, "type", a.ResourceType)
}

func (r rules) known(ctx context.Context, of resource.Type, id resource.ID) error {
	_, err := r.core.Get(ctx, resource.NewMetadata(meta.NamespaceName, of, id, resource.VersionUndefined))
	return err
}

func unknown(err error, what, name string) error {
	switch {
	case err == nil:
		return nil
	case state.IsNotFoundError(err):
		return status.Errorf(codes.NotFound, "cannot read %s %q: this node has none of that name", what, name)
	}
	return status.Errorf(codes.Unavailable, "cannot read %s %q: %v", what, name, err)
}

// orders bounds and checks what clients write.
type orders struct {
	state.CoreState
	limits Limits
	// mu keeps the count right between two that create.
	mu sync.Mutex
}

// mayNameOrder is what an order's ID consists of.
func mayNameOrder(id resource.ID) bool {
	return len(id) <= 128 && regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9._:-]*$`).MatchString(id)
}

// Create creates an order.
func (o *orders) Create(ctx context.Context, r resource.Resource, opts ...state.CreateOption) error {
	var options state.CreateOptions
	for _, opt := range opts {
		opt(&options)
	}
	if err := o.checkNew(r, options.Owner); err != nil {
		return err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	all, err := o.List(ctx, r.Metadata())
	if err != nil {
		return err
	}
	if len(all.Items) >= o.limits.Orders {
		return status.Errorf(codes.ResourceExhausted, "cannot create order %s: at most %d are allowed at a time; destroy one that is done", r.Metadata().ID(), o.limits.Orders)
	}
	return o.CoreState.Create(ctx, r, opts...)
}

func (o *orders) checkNew(r resource.Resource, owner string) error {
	md := r.Metadata()
	if !mayNameOrder(md.ID()) {
		return status.Error(codes.InvalidArgument, "cannot create the order: its id must be 1 to 128 letters, digits, or one of . _ : - behind the first")
	}
	if _, raw := r.(*protobuf.Resource); raw {
		return status.Errorf(codes.InvalidArgument, "cannot create order %s: this node doesn't know type %s", md.ID(), md.Type())
	}
	switch {
	case owner != "" || md.Owner() != "":
		return noOwner(md.ID())
	case md.Phase() != resource.PhaseRunning:
		return status.Errorf(codes.InvalidArgument, "cannot create order %s: its phase must be %s", md.ID(), resource.PhaseRunning)
	case !md.Finalizers().Empty():
		return status.Errorf(codes.PermissionDenied, "cannot create order %s: its finalizers must be empty; only the node sets them", md.ID())
	}
	size, err := sizeOf(r)
	if err != nil {
		return status.Errorf(codes.InvalidArgument, "cannot create order %s: %v", md.ID(), err)
	}
	if size > o.limits.OrderSize {
		return status.Errorf(codes.InvalidArgument, "cannot create order %s: it has %d bytes, at most %d are allowed", md.ID(), size, o.limits.OrderSize)
	}
	return nil
}

func noOwner(id resource.ID) error {
	return status.Errorf(codes.PermissionDenied, "cannot write order %s: its owner must be empty; only the node sets one", id)
}

// sizeOf is the size of a resource in protobuf's encoding.
func sizeOf(r resource.Resource) (int, error) {
	p, err := protobuf.FromResource(r)
	if err != nil {
		return 0, err
	}
	m, err := p.Marshal()
	if err != nil {
		return 0, err
	}
	return m.SizeVT(), nil
}

// Update tears an order down. Clients may change nothing else: its status is the node's.
func (o *orders) Update(ctx context.Context, r resource.Resource, opts ...state.UpdateOption) error {
	options := state.DefaultUpdateOptions()
	for _, opt := range opts {
		opt(&options)
	}
	if options.Owner != "" {
		return noOwner(r.Metadata().ID())
	}
	now, err := o.Get(ctx, r.Metadata())
	if err != nil {
		return err
	}
	same, err := tornDown(now, r)
	if err != nil {
		return status.Errorf(codes.InvalidArgument, "cannot update order %s: %v", r.Metadata().ID(), err)
	}
	if !same {
		return status.Errorf(codes.PermissionDenied, "cannot update order %s: clients may only tear it down and destroy it, and then create another one", r.Metadata().ID())
	}
	// The state compares the versions: what changed since then is a conflict.
	return o.CoreState.Update(ctx, r, opts...)
}

// tornDown is whether next differs from now in nothing but the phase and the version.
func tornDown(now, next resource.Resource) (bool, error) {
	p, err := protobuf.FromResource(now)
	if err != nil {
		return false, err
	}
	// The client's came through protobuf, which makes empty lists nil: both must have the same past.
	same, err := protobuf.UnmarshalResource(p)
	if err != nil {
		return false, err
	}
	if next.Metadata().Phase() != resource.PhaseTearingDown {
		return false, nil
	}
	same.Metadata().SetPhase(resource.PhaseTearingDown)
	same.Metadata().SetVersion(next.Metadata().Version())
	return resource.Equal(same, next), nil
}

// Destroy removes an order.
func (o *orders) Destroy(ctx context.Context, ptr resource.Pointer, opts ...state.DestroyOption) error {
	var options state.DestroyOptions
	for _, opt := range opts {
		opt(&options)
	}
	if options.Owner != "" {
		return noOwner(ptr.ID())
	}
	return o.CoreState.Destroy(ctx, ptr, opts...)
}
