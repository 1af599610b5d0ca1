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

// The interfaces that yield, keep and answer reservations, and their implementations.
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

// ErrPollEOS is returned by a poll that has reached the end of the stream: reservations
// that came with it are still handled, then the source closes.
var ErrPollEOS = workload.ErrPollEOS

// Verify checks r's signature with the key that r.User is, by the document's own version.
// It needs no state and knows no policy.
func Verify(r *Reservation) error { return workload.Verify(r) }

// NewFSStore opens the store in the folder root, and creates it if missing.
func NewFSStore(root string) (*FSStore, error) { return store.NewFSStore(root) }

// NewHTTPStore makes a client of the explorer at url.
func NewHTTPStore(url string) *HTTPStore { return explorer.NewHTTPStore(url) }

// PollSource yields store's reservations for the node: from reservation number 0 on, then
// from the largest number seen plus one. Repeats are yielded again; the number never wraps.
// It ends with ErrPollEOS.
func PollSource(store ReservationPoller, nodeID workload.Identifier) ReservationSource {
	return source.Poll(store, nodeID, zerolog.Nop())
}

// CombinedSource yields the reservations of all sources, and closes when all have closed.
func CombinedSource(sources ...ReservationSource) ReservationSource {
	return source.Combined(zerolog.Nop(), sources...)
}

// NewDecommissionSource yields the reservations that store reports expired, until they are
// gone from store.
func NewDecommissionSource(store ReservationExpirer) ReservationSource {
	return source.Decommission(store, zerolog.Nop())
}

// Engine handles its source's reservations for as long as it yields some.
type Engine = seed.Engine

// New creates an engine that handles source's reservations, remembers them in rw and
// answers through fb. Run needs a context with a bus (WithZBus), from which it builds its
// provisioners and its signer.
//
// Every guarantee of the engine needs records, which FSStore has. Any other cache is
// wrapped: reservations are added once deployed and removed once ended. Then a crash loses
// which work was half done and which results the explorer lacks; ended reservations may
// come again until their signed expiry; and reservations in the cache from before the
// process began aren't restored, because a cache can't list them.
//
// It accepts signatures of version 2, has no admission but the modules' own, gives nobody
// the node's log lines, and logs nothing. NewEngine has all that as parts.
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

// WithOwnerCache puts an OwnerCache into a context.
func WithOwnerCache(ctx context.Context, cache OwnerCache) context.Context {
	return seed.WithOwnerCache(ctx, cache)
}

// GetOwnerCache returns the context's OwnerCache, nil when there is none.
func GetOwnerCache(ctx context.Context) OwnerCache { return seed.GetOwnerCache(ctx) }

// WithZDBMapping puts a ZDBMapping into a context.
func WithZDBMapping(ctx context.Context, mapping ZDBMapping) context.Context {
	return seed.WithZDBMapping(ctx, mapping)
}

// GetZDBMapping returns the context's ZDBMapping, nil when there is none.
func GetZDBMapping(ctx context.Context) ZDBMapping { return seed.GetZDBMapping(ctx) }

// NewCache makes an OwnerCache that asks local first, then remote. It keeps remote's
// answers, because an owner never changes.
func NewCache(local, remote ReservationGetter) OwnerCache { return seed.NewCache(local, remote) }
