import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.ProjectExec;
import org.apache.spark.sql.execution.SparkStrategy;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2ScanRelation;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Strategy;
import org.apache.spark.sql.execution.datasources.v2.python.PythonScan;
import scala.collection.immutable.Nil$;
import scala.collection.immutable.Seq;

/**
 * Plans the scan of a data source in Python as Spark does, but for a last step that copies each row
 * into one just like it. Spark has that step for sources whose rows are not in its own binary form;
 * those that come from Python are.
 */
public final class OneCopy extends SparkStrategy {
    private final DataSourceV2Strategy sparks;

    public OneCopy(SparkSession session) {
        sparks = new DataSourceV2Strategy(session);
    }

    // Spark's compiler knows no type arguments.
    public Seq apply(LogicalPlan plan) {
        if (!(plan instanceof DataSourceV2ScanRelation)
                || !(((DataSourceV2ScanRelation) plan).scan() instanceof PythonScan)) {
            return Nil$.MODULE$;  // not ours: Spark asks the next strategy
        }
        Seq planned = sparks.apply(plan);
        if (planned.length() == 1 && planned.head() instanceof ProjectExec) {
            ProjectExec copy = (ProjectExec) planned.head();
            if (copy.projectList().equals(copy.child().output())) {
                return Nil$.MODULE$.$colon$colon(copy.child());
            }
        }
        return planned;
    }
}
