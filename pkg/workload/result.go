package workload

import (
	"encoding/json"
	"strings"
	"time"

	"github.com/croft-edge/croft/pkg/clip"
)

// State is the state of a workload in a result: a plain string, as the seed has it.
type State = string

// The states. StateOK and StateError are the seed's.
const (
	StateOK    State = "ok"
	StateError State = "error"
	// StateDeleted follows a signed deletion, StateExpired the end of the
	// duration, StateEvicted the machine owner's decision.
	StateDeleted State = "deleted"
	StateExpired State = "expired"
	StateEvicted State = "evicted"
)

// Ended reports whether a workload of that state is gone for good.
func Ended(s State) bool { return s == StateDeleted || s == StateExpired || s == StateEvicted }

// KnownState reports whether s is one of the states.
func KnownState(s State) bool { return s == StateOK || s == StateError || Ended(s) }

// ErrorText makes an error's text fit for a result: valid UTF-8, so that the
// signature over it survives JSON, and at most MaxErrorText long.
func ErrorText(text string) string {
	return clip.Within(strings.ToValidUTF8(text, "\uFFFD"), MaxErrorText)
}

// Result is the node's signed answer to a reservation.
type Result struct {
	Type Type `json:"type"`
	// ID is the reservation's.
	ID string `json:"id"`
	// Created is the time of the result.
	Created time.Time `json:"created"`
	State   State     `json:"state"`
	// Error is empty unless State is "error" or "evicted".
	Error string `json:"error"`
	// Data depends on the type; null when there is none.
	Data      json.RawMessage `json:"data"`
	Signature []byte          `json:"signature"`

	// Hash is the reservation's hash (version 2): 32 bytes.
	Hash []byte `json:"reservation_hash,omitempty"`
	// Birth is the ID of the node's store at that time: with Sequence it orders
	// a node's results.
	Birth string `json:"birth,omitempty"`
	// Sequence grows with each result of a node's store, from 1.
	Sequence int64 `json:"sequence,omitempty"`
	// NodeID isn't a member: it is signed, and known from the reservation.
	NodeID string `json:"-"`
}
