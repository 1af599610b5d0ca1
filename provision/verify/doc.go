// Package verify decides whether a reservation may be followed: whether its
// user asked this node for it, and whether its dates allow it now. It decides
// purely, from the document, the policy and the time; it keeps nothing.
//
// What isn't authentic is dropped: nobody is known to have asked for it, so it
// costs no durable write and gets no answer. What is authentic and can't be
// accepted is refused with an error that is shown to its user.
package verify
