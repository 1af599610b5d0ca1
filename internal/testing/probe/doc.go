// Command probe runs inside a container of the tests and says, in JSON, what it
// sees and what it may do there. It is built by the tests, and part of nothing
// that is shipped. It owns nothing and may try everything.
package main
