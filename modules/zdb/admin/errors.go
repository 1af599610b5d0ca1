package admin

import (
	"strconv"

	"github.com/gomodule/redigo/redis"
	"github.com/pkg/errors"

	"github.com/croft-edge/croft/modules/zdb/socket"
	"github.com/croft-edge/croft/pkg/clip"
	"github.com/croft-edge/croft/pkg/node"
)

// kindOfText is the kind of an error of 0-db. No other place knows these texts.
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

// longestText is how much of a zdb's error is shown, in bytes.
const longestText = 200

// classify gives the error of a command its kind: an error of the zdb has that of its
// text, and one of the connection is Transient.
func classify(err error) error {
	var refusal redis.Error
	switch {
	case err == nil:
		return nil
	case errors.As(err, &refusal):
		text := clip.Text(string(refusal), longestText)
		return node.Errorf(kindOfText(string(refusal)), "it says %s", strconv.Quote(text))
	}
	return node.Errorf(node.Transient, "it doesn't answer: %w", socket.Reason(err))
}
