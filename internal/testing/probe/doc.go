// Command probe runs inside a container of the tests and reports, in JSON, what it sees and may do
// there. The tests build it; it is never shipped. It owns nothing and may try everything.
package main
