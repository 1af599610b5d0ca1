package image

import "time"

// TestedWaste is waste, for a test.
type TestedWaste struct{ w waste }

// NewWaste returns one that nobody has to pay back.
func NewWaste() *TestedWaste { return &TestedWaste{} }

// Add notes what an image has cost.
func (t *TestedWaste) Add(user string, now, cost time.Duration) { t.w.add(user, now, cost) }

// Wait is how long a user's next image has to wait.
func (t *TestedWaste) Wait(user string, now time.Duration) time.Duration { return t.w.wait(user, now) }
