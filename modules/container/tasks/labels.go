package tasks

import "github.com/croft-edge/croft/modules/container/vouched"

// Labels keeps the labels of users' containers by their IDs, at least one container a user, from one look to the next: containerd lists
// a container only with its whole specification, some 10 KB. What is kept is true if each of these containers has a task, and no other
// container has one.
type Labels = vouched.Lists[map[string]map[string]string]

// keep keeps what was listed after l.Kept. A listing with a container that has no task, or with none at all, isn't kept: it would never
// be used.
func keep(l *Labels, user string, epoch uint64, of map[string]map[string]string, hasTask func(id string) bool) {
	for id := range of {
		if !hasTask(id) {
			return
		}
	}
	if len(of) > 0 {
		l.Keep(user, epoch, of)
	}
}
