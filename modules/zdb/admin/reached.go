package admin

import (
	"regexp"
	"strconv"
	"strings"

	"github.com/gomodule/redigo/redis"
)

const (
	// reachedLine begins a line of INFO, over the admin socket: how often a limit has
	// turned something away.
	reachedLine = "limit_reached_"
	// mostReached is how many limits are taken from a reply.
	mostReached = 16
)

var limitForm = regexp.MustCompile(`^zdb-[a-z-]{1,40}$`)

// Reached is how often each limit of a zdb has turned something away since its start;
// nil when it doesn't answer.
func (a Client) Reached() map[string]uint64 {
	text, err := redis.String(a.do("INFO"))
	if err != nil {
		return nil
	}
	out := map[string]uint64{}
	for line := range strings.Lines(text) {
		name, value, ok := strings.Cut(strings.TrimPrefix(strings.TrimSpace(line), reachedLine), ": ")
		n, err := strconv.ParseUint(value, 10, 64)
		if ok && err == nil && strings.HasPrefix(line, reachedLine) && limitForm.MatchString(name) && len(out) < mostReached {
			out[name] = n
		}
	}
	return out
}
