package provision

import (
	"context"

	"github.com/rs/zerolog"
	"github.com/threefoldtech/zbus"

	"github.com/croft-edge/croft/pkg/explorer"
	"github.com/croft-edge/croft/pkg/workload"
	"github.com/croft-edge/croft/provision/seed"
	"github.com/croft-edge/croft/provision/source"
	"github.com/croft-edge/croft/provision/store"
)

// The documents, by the names that they have here. Their meaning and JSON are
// package workload's.
type (
	Reservation       = workload.Reservation
	ReservationType   = workload.Type
	Result            = workload.Result
	Tag               = workload.Tag
	Container         = workload.Container
	ContainerCapacity = workload.ContainerCapacity
	ContainerResult   = workload.ContainerResult
	Mount             = workload.Mount
	// Network is a container's membership in a network; the network itself
	// is workload.Network.
	Network          = workload.ContainerNetwork
	Volume           = workload.Volume
	VolumeResult     = workload.VolumeResult
	ZDB              = workload.ZDB
	ZDBResult        = workload.ZDBResult
	Kubernetes       = workload.Kubernetes
	KubernetesResult = workload.KubernetesResult
	Debug            = workload.Debug
	DiskType         = workload.DeviceType
)

// The types of reservation.
const (
	ContainerReservation  = workload.TypeContainer
	VolumeReservation     = workload.TypeVolume
	NetworkReservation    = workload.TypeNetwork
	ZDBReservation        = workload.TypeZDB
	DebugReservation      = workload.TypeDebug
	KubernetesReservation = workload.TypeKubernetes
)

// The types of disk.
const (
	HDDDiskType = workload.HDD
	SSDDiskType = workload.SSD
)

// What yields, keeps and answers reservations.
type (
	ReservationSource  = workload.ReservationSource
	ReservationPoller  = workload.ReservationPoller
	ReservationGetter  = workload.ReservationGetter
	ReservationExpirer = workload.ReservationExpirer
	ReservationCache   = workload.ReservationCache
	Feedbacker         = workload.Feedbacker
	OwnerCache         = workload.OwnerCache
	ZDBMapping         = workload.ZDBMapping
	Counter            = workload.Counter
	// FSStore keeps reservations in a folder; it is a ReservationCache and more.
	FSStore = store.FSStore
	// HTTPStore is an explorer over HTTP.
	HTTPStore = explorer.HTTPStore
)

// ErrPollEOS is returned by a poll that has reached the end of the stream:
// what came with it is still handled, then the source closes.
var ErrPollEOS = workload.ErrPollEOS

// Verify checks r's signature by the key that r.User is, in whichever version
// the document says. It needs no state and knows no policy.
func Verify(r *Reservation) error { return workload.Verify(r) }

// NewFSStore opens the store in the folder root, and makes it when there is none.
func NewFSStore(root string) (*FSStore, error) { return store.NewFSStore(root) }

// NewHTTPStore makes a client of the explorer at url.
func NewHTTPStore(url string) *HTTPStore { return explorer.NewHTTPStore(url) }

// PollSource yields what store has for the node: from reservation number 0 on,
// then from the largest number seen plus one. Repeats are yielded again; the
// number never wraps. It ends with ErrPollEOS.
func PollSource(store ReservationPoller, nodeID workload.Identifier) ReservationSource {
	return source.Poll(store, nodeID, zerolog.Nop())
}

// CombinedSource yields what any of the sources yields, and closes when all have.
func CombinedSource(sources ...ReservationSource) ReservationSource {
	return source.Combined(zerolog.Nop(), sources...)
}

// NewDecommissionSource yields what store says has expired, until it is gone
// from store.
func NewDecommissionSource(store ReservationExpirer) ReservationSource {
	return source.Decommission(store, zerolog.Nop())
}

// Engine handles what its source yields, for as long as it yields some.
type Engine = seed.Engine

// New creates an engine that handles what source yields, remembers it in rw
// and answers through fb. Run needs a context with a bus (WithZBus), from which
// it builds its provisioners and its signer.
//
// Every guarantee of the engine needs records, which FSStore has. Any other
// cache is wrapped: reservations are added after they are deployed and removed
// when they have ended. What is lost then: after a crash nobody knows what was
// half done, nor which results the explorer hasn't got; what has ended may be
// brought again until its signed expiry; and what the cache had before the
// process began isn't restored, because a cache can't list it.
//
// It accepts signatures of version 2, has no admission but the modules' own,
// lets nobody have the node's log lines, and says nothing in any log. NewEngine
// has all that as parts.
func New(source ReservationSource, rw ReservationCache, fb Feedbacker) Engine {
	return seed.New(source, rw, fb)
}

// WithZBus puts the bus's client into a context. Run of an engine made by New
// reads it once, for its provisioners and its signer.
func WithZBus(ctx context.Context, client zbus.Client) context.Context {
	return seed.WithZBus(ctx, client)
}

// GetZBus returns the bus's client, nil when there is none.
func GetZBus(ctx context.Context) zbus.Client { return seed.GetZBus(ctx) }

// WithOwnerCache puts what knows the reservations' owners into a context.
func WithOwnerCache(ctx context.Context, cache OwnerCache) context.Context {
	return seed.WithOwnerCache(ctx, cache)
}

// GetOwnerCache returns what knows the reservations' owners, nil when there is none.
func GetOwnerCache(ctx context.Context) OwnerCache { return seed.GetOwnerCache(ctx) }

// WithZDBMapping puts what knows the namespaces' containers into a context.
func WithZDBMapping(ctx context.Context, mapping ZDBMapping) context.Context {
	return seed.WithZDBMapping(ctx, mapping)
}

// GetZDBMapping returns what knows the namespaces' containers, nil when there is none.
func GetZDBMapping(ctx context.Context) ZDBMapping { return seed.GetZDBMapping(ctx) }

// NewCache makes an OwnerCache that asks local first, then remote. An owner
// never changes, so what was learned is kept.
func NewCache(local, remote ReservationGetter) OwnerCache { return seed.NewCache(local, remote) }
