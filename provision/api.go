package provision

import (
	"github.com/rs/zerolog"

	"github.com/croft-edge/croft/pkg/explorer"
	"github.com/croft-edge/croft/pkg/workload"
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
