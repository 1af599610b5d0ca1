package logs

import (
	"github.com/croft-edge/croft/pkg/carrier"
)

// kind is the log carrier's, below {run}/log.
func kind() carrier.Kind {
	return carrier.Kind{Name: "log", Title: "log carrier", Protocol: protocol, MaxRequest: maxRequest, MaxAnswer: maxResponse}
}

// protocol is the version of the operations and documents below.
const protocol = 2

// The operations.
const (
	opOpen = "open"
	opDrop = "drop"
	opList = "list"
)

// Bounds of a line, in bytes.
const (
	maxRequest  = 64 << 10
	maxResponse = 16 << 20
)

// openRequest is of opOpen.
type openRequest struct {
	ID string `json:"id,omitempty"`
	// User is whose container it is.
	User string `json:"user,omitempty"`
}

// dropRequest is of opDrop.
type dropRequest struct {
	ID        string `json:"id,omitempty"`
	KeepFiles bool   `json:"keep_files,omitempty"`
}

// openAnswer is of opOpen.
type openAnswer struct {
	FIFOs *FIFOs `json:"fifos,omitempty"`
}

// listAnswer is of opList.
type listAnswer struct {
	IDs []string `json:"ids,omitempty"`
}

// Info describes a carrier process.
type Info struct {
	carrier.Info
	Containers int `json:"containers"`
	// Dir, Size and Files are its settings.
	Dir   string `json:"dir"`
	Size  int64  `json:"size"`
	Files int    `json:"files"`
	// Limits is how often each limit was reached, by name.
	Limits map[string]uint64 `json:"limits,omitempty"`
}
