package command

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/croft-edge/croft/cmd/croft/internal/lifetime"
	"github.com/croft-edge/croft/cmd/croft/internal/memory"
	"github.com/croft-edge/croft/pkg/explorer"
	"github.com/croft-edge/croft/pkg/node"
)

// memoryPath is where croft remembers nodes' doors; empty where it can't.
func (s *shell) memoryPath() string {
	dir, err := s.env.configDir()
	if err != nil {
		return ""
	}
	return filepath.Join(dir, "nodes.json")
}

// noteAnswer remembers that the explorer has answered, and where it says that nodes are. It is for later
// only, so that it can't be written is no failure.
func (s *shell) noteAnswer(c *cli.Context, nodes ...explorer.Node) {
	url, err := s.setting(c, flagExplorer)
	path := s.memoryPath()
	if err != nil || path == "" {
		return
	}
	s.memory.Lock()
	defer s.memory.Unlock()
	_ = memory.Note(path, func(m *memory.Memory) {
		m.Explorers[url] = s.env.Now()
		for _, n := range nodes {
			m.Doors[n.NodeID] = memory.Door{Address: n.Door, Told: s.env.Now()}
		}
	})
}

// rememberedDoor is where a node was reached last; empty for nowhere.
func (s *shell) rememberedDoor(nodeID string) string {
	path := s.memoryPath()
	if path == "" {
		return ""
	}
	return memory.Read(path).Doors[nodeID].Address
}

// isAway reports whether err says that the explorer can't be asked now: it isn't
// reached, or isn't itself. What it answers by a kind of its own is an answer.
func isAway(ctx context.Context, err error) bool {
	if err == nil || ctx.Err() != nil || node.KindOf(err) != node.Transient && !errors.Is(err, context.DeadlineExceeded) {
		return false
	}
	var answer *explorer.AnswerError
	return !errors.As(err, &answer) || answer.Problem.Status >= 500
}

// awayError says that the explorer is away, and since when.
type awayError struct {
	since string
	err   error
}

func (e *awayError) Error() string {
	return fmt.Sprintf("the explorer is away%s: %s", e.since, e.err)
}
func (e *awayError) Unwrap() error { return e.err }

// away says since when the explorer is away where that is why err is.
func (s *shell) away(c *cli.Context, err error) error {
	if already := (*awayError)(nil); !isAway(c.Context, err) || errors.As(err, &already) {
		return err
	}
	return &awayError{s.awaySince(c), err}
}

// awaySince says when the explorer has answered last, as in " (it answered last 5m ago)".
func (s *shell) awaySince(c *cli.Context) string {
	url, err := s.setting(c, flagExplorer)
	path := s.memoryPath()
	if err != nil || path == "" {
		return ""
	}
	last, known := memory.Read(path).Explorers[url]
	if !known {
		return " (it has never answered this croft)"
	}
	return fmt.Sprintf(" (it answered last at %s, %s ago)", clock(last), lifetime.Text(max(0, s.env.Now().Sub(last)).Truncate(time.Second)))
}

// findDoor is where a node is: what the explorer says, else what is remembered; away is the error of an explorer
// that is away.
func (s *shell) findDoor(ctx context.Context, c *cli.Context, client *explorer.Client, nodeID string) (address string, away error) {
	remembered := s.rememberedDoor(nodeID)
	if remembered != "" {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, explorerWait)
		defer cancel()
	}
	n, err := client.Node(ctx, nodeID)
	switch {
	case err == nil:
		s.noteAnswer(c, n)
		return n.Door, nil
	case isAway(c.Context, err):
		return remembered, &awayError{s.awaySince(c), err}
	}
	return "", nil
}

// learnDoors remembers where nodes are, for when the explorer is away.
func (s *shell) learnDoors(c *cli.Context, rows []row) {
	ctx, cancel := context.WithTimeout(c.Context, nodeWait)
	defer cancel()
	client, err := s.client(c, false)
	if err != nil {
		return
	}
	defer client.Close()
	known := map[string]memory.Door{}
	if path := s.memoryPath(); path != "" {
		known = memory.Read(path).Doors
	}
	var all sync.WaitGroup
	room := make(chan struct{}, askAtOnce)
	for _, r := range rows {
		if d, ok := known[r.Node]; ok && s.env.Now().Sub(d.Told) < doorAge {
			continue
		}
		known[r.Node] = memory.Door{Told: s.env.Now()}
		all.Go(func() {
			room <- struct{}{}
			defer func() { <-room }()
			_, _ = s.findDoor(ctx, c, client, r.Node)
		})
	}
	all.Wait()
}

// explorerWait is how long an explorer may take to say where a node is whose door is
// remembered.
const explorerWait = 3 * time.Second

// doorAge is how long a node's remembered door is good enough not to ask again.
const doorAge = time.Hour
