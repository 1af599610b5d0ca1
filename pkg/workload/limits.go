package workload

import (
	"github.com/croft-edge/croft/pkg/fielderror"
	"github.com/croft-edge/croft/pkg/strictjson"
)

// Limits of a document. They bound the cost of a signature check: the sender of
// a document hasn't shown a valid signature yet.
const (
	// MaxDocument is the size of a whole document in bytes. Readers of a
	// body limit it: Decode refuses longer ones.
	MaxDocument = 1 << 20
	// MaxData is the size of a reservation's or result's data in bytes; the
	// rest of a document is for its other members.
	MaxData = 512 << 10
	// MaxDepth is how deep objects and arrays may nest.
	MaxDepth = strictjson.MaxDepth
	// MaxMembers is how many members one object may have.
	MaxMembers = strictjson.MaxMembers
	// MaxValues is how many values a document may have in all.
	MaxValues = strictjson.MaxValues
	// MaxInteger is the largest integer in data, and with a minus sign the smallest.
	MaxInteger = strictjson.MaxInteger
	// MaxErrorText is the size of a result's error in bytes (see ErrorText).
	MaxErrorText = 64 << 10
	// MaxName is the length of a name in characters: a network's, a channel's.
	MaxName = 64
	// MaxGiB is the largest size in GiB whose size in bytes an int64 can hold.
	MaxGiB = 1<<33 - 1
	// MaxMiB is the largest size in MiB whose size in bytes an int64 can hold.
	MaxMiB = 1<<43 - 1
)

// Units of sizes, in bytes.
const (
	MiB = 1 << 20
	GiB = 1 << 30
)

// FieldError names the refused field of a document and its allowed values.
type FieldError = fielderror.Error
