package wire

import (
	"net/http"
	"time"

	"github.com/croft-edge/croft/pkg/limit"
)

// Setup is what the door's process has to know.
type Setup struct {
	NodeID string
	// Limits are those of connections, in the order of Limit's constants; Files and Memory
	// (bytes) the process's own.
	Limits        [Limits]limit.Limit
	Files, Memory int64
	// Greeting, Header, Body, Idle and Stuck are as in door.Limits.
	Greeting, Header, Body, Idle, Stuck time.Duration
}

// The limits that the door's process keeps.
const (
	Strangers = iota
	TunnelStrangers
	Owners
	OwnerSources
	Limits
)

// What the door answers to Stay.
const (
	StayOK byte = iota
	StayUserHasAll
	StayAllTaken
	StaySourceHasAll
	StayFailed
)

// Answer is a Head's payload, as JSON.
type Answer struct {
	Status int
	Header http.Header
}
