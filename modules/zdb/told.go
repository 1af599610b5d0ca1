package zdb

import (
	"net"
	"strconv"
	"strings"
	"syscall"

	"github.com/gomodule/redigo/redis"
	"github.com/pkg/errors"

	"github.com/croft-edge/croft/pkg/node"
)

// What a zdb says when it refuses something, as 0-db does: this is the only place
// that knows the texts.
func kindOfText(text string) node.Kind {
	switch text {
	case "Namespace not found", "This namespace doesn't exists", "This namespace doesn't exist":
		return node.NotExist
	case "This namespace is not available":
		return node.Exist
	case "No space left on this namespace":
		return node.NoSpace
	case "This name is not allowed", "Namespace too long", "Argument too long", "Invalid value", "Invalid property", "Invalid argument",
		"Cannot update default namespace", "Cannot remove default namespace":
		return node.Invalid
	case "Permission denied", "Access denied":
		return node.Refused
	}
	return node.Internal
}

// longestText is how much of what a zdb says is shown.
const longestText = 200

// classify gives what came of a command its kind: what the zdb says has that of
// its text, and a zdb that doesn't answer, or not as one, is worth another try.
func classify(err error) error {
	var said redis.Error
	switch {
	case err == nil:
		return nil
	case errors.As(err, &said):
		text := string(said)
		if len(text) > longestText {
			text = strings.ToValidUTF8(text[:longestText], "") + "…"
		}
		return node.Errorf(kindOfText(string(said)), "it says %s", strconv.Quote(text))
	}
	return node.Errorf(node.Transient, "it doesn't answer: %w", reason(err))
}

// reason is why something failed, without the addresses and paths of this node: it
// may be shown to a tenant.
func reason(err error) error {
	var errno syscall.Errno
	if errors.As(err, &errno) {
		return errno
	}
	var call *net.OpError
	if errors.As(err, &call) {
		return call.Err
	}
	return errors.Cause(err)
}
