package logs

import (
	"sync"
	"time"

	"github.com/croft-edge/croft/pkg/limit"
)

// The limits of docs/security.md.
var (
	// limitTurns bounds the streams that are taken from and written at a time: each
	// has some 150 KiB in hand. Users take turns, and a user's streams do.
	limitTurns = limit.Limit{Name: "log-turns", Per: "user", Each: 8, Total: 32}
	// limitSpool bounds the output taken from a FIFO that isn't in a file yet.
	limitSpool = limit.Limit{Name: "log-spool", Per: "stream", Each: 128 << 10, Unit: limit.Bytes}
	// limitHalves bounds the spools that wait for the end of a line; see restSize.
	limitHalves = limit.Limit{Name: "log-half-lines", Per: "user", Each: 8 << 20, Total: 64 << 20, Unit: limit.Bytes}
	// limitRate bounds how much is written in a second; burst seconds' worth may be written at
	// once. A minute at that rate overwrites a container's files several times.
	limitRate = limit.Limit{Name: "log-rate", Per: "user", Each: 4 << 20, Total: 32 << 20, Unit: limit.Bytes}
)

// burst is how many seconds' worth of the rate may come at once, after a pause.
const burst = 2

// scheduler divides the carrier between users.
type scheduler struct {
	turns  *limit.Line
	halves *limit.Shares
	total  *pace

	mu    sync.Mutex
	paces map[string]*userPace
}

// userPace is the pace of a user, and how many containers go at it.
type userPace struct {
	*pace
	containers int
}

func newScheduler() *scheduler {
	return &scheduler{
		turns: limit.NewLine(limitTurns), halves: limitHalves.Shares(), total: newPace(limitRate.Total),
		paces: map[string]*userPace{},
	}
}

// pace is a user's, until it is let go of.
func (s *scheduler) pace(user string) *pace {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.paces[user]
	if p == nil {
		p = &userPace{pace: newPace(limitRate.Each)}
		s.paces[user] = p
	}
	p.containers++
	return p.pace
}

// letGo gives a user's pace back.
func (s *scheduler) letGo(user string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p := s.paces[user]; p != nil {
		if p.containers--; p.containers == 0 {
			delete(s.paces, user)
		}
	}
}

// pace lets so many bytes a second be written, and some more at once.
type pace struct {
	rate  float64
	mu    sync.Mutex
	spare float64
	last  time.Time
}

func newPace(rate int64) *pace {
	return &pace{rate: float64(rate), spare: float64(rate) * burst, last: time.Now()}
}

// wait is how long to wait after n bytes.
func (p *pace) wait(n int64) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	p.spare = min(p.rate*burst, p.spare+now.Sub(p.last).Seconds()*p.rate) - float64(n)
	p.last = now
	if p.spare >= 0 {
		return 0
	}
	return time.Duration(-p.spare / p.rate * float64(time.Second))
}
