package nodetest

import (
	"fmt"
	"sync"
	"time"
)

// Loop is a client that sends requests continuously.
type Loop struct {
	stop chan struct{}
	done chan struct{}

	mu     sync.Mutex
	asked  int
	failed []string
}

// patience is how long a request of a Loop may take, on a slow, busy machine.
const patience = 20 * time.Second

// StartLoop requests url from inside, one request after the other, each on a connection of its own,
// until Stop.
func (m *Member) StartLoop(url string) *Loop {
	l := &Loop{stop: make(chan struct{}), done: make(chan struct{})}
	go func() {
		defer close(l.done)
		for {
			select {
			case <-l.stop:
				return
			default:
			}
			begun := time.Now()
			_, err := m.w.Get(m.Path(), url, patience)
			l.note(begun, err)
		}
	}()
	m.w.Cleanup(l.end)
	return l
}

func (l *Loop) note(begun time.Time, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.asked++
	if err != nil {
		l.failed = append(l.failed, fmt.Sprintf("%s, after %s: %v", begun.Format("15:04:05.000"), time.Since(begun), err))
	}
}

// Asked is the number of requests so far.
func (l *Loop) Asked() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.asked
}

func (l *Loop) end() {
	select {
	case <-l.stop:
	default:
		close(l.stop)
	}
	<-l.done
}

// Stop ends the loop and returns the number of requests, and the failed ones.
func (l *Loop) Stop() (asked int, failed []string) {
	l.end()
	return l.asked, l.failed
}
