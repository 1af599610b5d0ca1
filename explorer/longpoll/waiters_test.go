package longpoll

import "testing"

func TestAStrangersPollGoesFirst(t *testing.T) {
	w := NewWaiters()
	mine := w.add("node", true)
	var strangers []*waiter
	for range MaxOfNode + 3 {
		strangers = append(strangers, w.add("node", false))
	}
	if mine.over || !strangers[0].over || w.Waiting() != MaxOfNode {
		t.Errorf("the node's own is over: %t, a stranger's: %t, %d wait", mine.over, strangers[0].over, w.Waiting())
	}
	w.Close()
}
