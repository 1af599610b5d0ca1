// Package projects has the commands on a whole project or on reservations by ID: plan,
// apply, import, status, renew and delete. What is decided and carried out is in the
// packages plan and deploy; here are flags, questions to the user, and what is shown.
package projects
