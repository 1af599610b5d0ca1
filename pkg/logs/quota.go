package logs

import (
	"time"

	"github.com/croft-edge/croft/pkg/limit"
)

// quota is a user's part of the carrier, as one of the user's containers has it.
type quota struct {
	scheduler *scheduler
	user      string
	pace      *pace
}

// of is the quota of one container of user, until it is released.
func (s *scheduler) of(user string) *quota {
	return &quota{scheduler: s, user: user, pace: s.pace(user)}
}

func (q *quota) release() { q.scheduler.letGo(q.user) }

// turn asks for a turn to read and write.
func (q *quota) turn() *limit.Ticket { return q.scheduler.turns.Ask(q.user, true) }

// half takes room for an unfinished line, until it is given back.
func (q *quota) half() (give func(), err error) { return q.scheduler.halves.Take(q.user, restSize) }

// wait is how long to wait after n bytes.
func (q *quota) wait(n int64) time.Duration {
	return max(q.pace.wait(n), q.scheduler.total.wait(n))
}
