package wire

import (
	"net/http"
	"time"

	"github.com/croft-edge/croft/pkg/limit"
)

// Setup holds the settings of the door's process.
type Setup struct {
	NodeID string
	// Limits are those of connections, indexed by the constants below; Files and Memory (bytes) are the
	// process's own.
	Limits        [Limits]limit.Limit
	Files, Memory int64
	// Greeting, Header, Body, Idle and Stuck are as in userapi.Limits.
	Greeting, Header, Body, Idle, Stuck time.Duration
}

// The limits that the door's process enforces.
const (
	Strangers = iota
	TunnelStrangers
	Owners
	OwnerSources
	Limits
)

// The door's answers to Stay.
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
