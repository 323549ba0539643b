"""All pages and charts of the console with their addresses."""

from trackside.console.pages import compare, fleet
from trackside.console.pages.experiments import experiments
from trackside.console.pages.history.log import events, log, past
from trackside.console.pages.history.whatif import whatif
from trackside.console.pages.home import home
from trackside.console.pages.overview import overview, version
from trackside.console.pages.rounds import models, rounds
from trackside.console.pages.rounds.bills import live_bill
from trackside.console.pages.runs import charts as run_charts
from trackside.console.pages.runs import pipelines
from trackside.console.pages.runs.run import step
from trackside.console.pages.searches import charts as search_charts
from trackside.console.pages.searches.output import output
from trackside.console.pages.searches.search import parameters, trials
from trackside.console.pages.searches.task import task
from trackside.console.pages.selected import selected
from trackside.console.pages.summaries import charts as summary_charts
from trackside.console.pages.summaries import page as summaries
from trackside.console.web.page import ColumnsRoute, PageRoute, Site

SITE = Site(
    pages=(
        PageRoute("/", home),
        PageRoute("/experiments", experiments),
        PageRoute("/experiments/{stream_id}", overview),
        PageRoute("/experiments/{stream_id}/trials", trials),
        PageRoute("/experiments/{stream_id}/parameters", parameters),
        PageRoute("/experiments/{stream_id}/events", events),
        PageRoute("/experiments/{stream_id}/past", past),
        PageRoute("/experiments/{stream_id}/steps/{step}", step),
        PageRoute("/experiments/{stream_id}/rounds/{round}", rounds.round_page),
        PageRoute("/experiments/{stream_id}/bill", live_bill),
        PageRoute("/experiments/{stream_id}/versions/{version}", version),
        PageRoute("/tasks/{stream_id}/{task_id}", task),
        PageRoute("/tasks/{stream_id}/{task_id}/output", output),
        PageRoute("/experiments/{stream_id}/summaries", summaries.stream_summaries),
        PageRoute("/experiments/{stream_id}/whatif", whatif),
        PageRoute("/summaries", summaries.summaries),
        PageRoute("/compare", compare.compare),
        PageRoute("/selected", selected),
        PageRoute("/fleet", fleet.fleet),
        PageRoute("/fleet/task-types", fleet.task_types),
        PageRoute("/log", log),
    ),
    charts=(
        ColumnsRoute("/data/searches/{stream_id}/history", search_charts.history),
        ColumnsRoute("/data/searches/{stream_id}/trials", search_charts.trials),
        ColumnsRoute("/data/searches/{stream_id}/importances", search_charts.importances),
        ColumnsRoute("/data/rounds/{stream_id}/metric", rounds.metric_chart),
        ColumnsRoute("/data/rounds/{stream_id}/hard", rounds.hard_chart),
        ColumnsRoute("/data/runs/{stream_id}/graph", run_charts.graph),
        ColumnsRoute("/data/runs/{stream_id}/timeline", run_charts.timeline),
        ColumnsRoute("/data/models/{stream_id}/metric", models.metric_chart),
        ColumnsRoute("/data/pipelines/{stream_id}/durations", pipelines.durations),
        ColumnsRoute("/data/pipelines/{stream_id}/{version}/graph", pipelines.definition_graph),
        ColumnsRoute("/data/tasks/{stream_id}/{task_id}/curve", search_charts.curve),
        ColumnsRoute("/data/compare/best", compare.best_columns),
        ColumnsRoute("/data/compare/values", compare.value_columns),
        ColumnsRoute("/data/compare/curves", compare.curves),
        ColumnsRoute("/data/summaries/scalars", summary_charts.scalars),
        ColumnsRoute("/data/summaries/histograms", summary_charts.histograms),
        ColumnsRoute("/data/summaries/hparams", summary_charts.hparams),
        ColumnsRoute("/data/fleet/timeline", fleet.timeline),
    ),
)
