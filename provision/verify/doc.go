// Package verify decides whether a reservation may be followed: whether its user asked this
// node for it, and whether its dates allow it now. It is pure: it decides from the
// document, the policy and the time, and keeps nothing.
//
// A reservation that isn't authentic is dropped: no user is known to have asked for it, so
// it costs no durable write and gets no answer. An authentic one that can't be accepted is
// refused with an error that is shown to its user.
package verify
